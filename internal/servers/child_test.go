package servers

import (
	"os/exec"
	"testing"
	"time"
)

func TestChild(t *testing.T) {
	t.Parallel()
	t.Run("EndsByStop", func(t *testing.T) {
		t.Parallel()
		child, err := StartChild(exec.Command("sleep", "600"))
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
		if state, _ := stat(child.PID()); state != gone {
			t.Error("it lives on")
		}
	})
	t.Run("IsKilledWhereItIgnoresStop", func(t *testing.T) {
		t.Parallel()
		child, err := StartChild(exec.Command("sh", "-c", `trap "" TERM; while :; do sleep 0.1; done`))
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Stop(100 * time.Millisecond); err != nil {
			t.Error(err)
		}
		if state, _ := stat(child.PID()); state != gone {
			t.Error("it lives on")
		}
	})
	t.Run("SaysHowItEnded", func(t *testing.T) {
		t.Parallel()
		child, err := StartChild(exec.Command("sh", "-c", "exit 3"))
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Err(); err == nil || err.Error() != "exit status 3" {
			t.Errorf("got %v", err)
		}
		if err := child.Stop(time.Second); err != nil {
			t.Error(err)
		}
	})
}
