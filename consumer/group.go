package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// doorAgain is how long a stream whose door did not open is left alone.
const doorAgain = 5 * time.Second

// doors makes the group on each stream where there is none. Its errors are by stream.
func (s *session) doors(ctx context.Context, streams map[string]string) map[string]error {
	keys := make([]string, 0, len(streams))
	execs := make([]valkey.LuaExec, 0, len(streams))
	for key, start := range streams {
		keys = append(keys, key)
		execs = append(execs, valkey.LuaExec{Keys: []string{key}, Args: []string{s.cfg.Group, start}})
	}
	errs := map[string]error{}
	if len(keys) == 0 {
		return errs
	}
	for i, res := range s.scripts.door.ExecMulti(ctx, s.cmd, execs...) {
		if _, err := res.AsInt64(); err != nil {
			if hasPrefix(err, "WRONGTYPE") {
				err = fmt.Errorf("%q: %w", keys[i], ErrNotStream)
			}
			errs[keys[i]] = err
		}
	}
	return errs
}

// open opens the doors of the reader's streams. Each then reads its own backlog from the start.
func (r *reader) open(streams []*stream) {
	p := r.p
	starts := map[string]string{}
	p.mu.Lock()
	for _, s := range streams {
		starts[s.key] = s.start
	}
	p.mu.Unlock()
	errs := p.s.doors(context.Background(), starts)
	failed := false
	p.mu.Lock()
	for _, s := range streams {
		err := errs[s.key]
		if s.fault = err; err == nil {
			s.phase, s.cursor, s.start, s.dry = phaseBacklog, "0-0", remadeStart, false
			p.s.c.faults.over("stream not readable", s.key)
			continue
		}
		if !errors.Is(err, ErrNotStream) && serverFault(err) {
			failed = true
			continue
		}
		s.retryAt = time.Now().Add(doorAgain)
		p.s.c.faults.warn("stream not readable", s.key, err)
	}
	p.mu.Unlock()
	if failed {
		p.s.c.count.failures.Add(1)
		p.s.c.faults.warn("server not reached", "", errors.New("groups not created"))
		r.wait.sleep(p.s.quit)
		return
	}
	r.wait.reset()
}

// remadeStart is where a group begins that was there and is not any more: never past entries that nobody saw.
const remadeStart = "0"

// groupLost sends streams back to the door after a read said that a group or a key is gone, or not a stream. One that
// keeps vanishing is made again once a second.
func (r *reader) groupLost(streams []*stream, err error) {
	p := r.p
	again := false
	p.mu.Lock()
	for _, s := range streams {
		if s.phase == phaseDoor {
			continue
		}
		again = again || time.Since(s.remade) < time.Second
		s.remade = time.Now()
		s.phase, s.hot = phaseDoor, false
	}
	p.mu.Unlock()
	if groupGone(err) { // otherwise a key is not a stream, and the door will name it
		p.s.c.count.groupsRemade.Add(1)
		p.s.c.faults.warn("group lost, made again from the head", "", err)
	}
	if again {
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.s.quit:
		}
	}
}

// groupGone: the group, or its stream, does not exist.
func groupGone(err error) bool {
	return hasPrefix(err, "NOGROUP") || hasPrefix(err, "UNBLOCKED")
}

// serverFault: err says nothing of the stream that was asked about. No reply came, or one that says to ask again later.
func serverFault(err error) bool {
	_, answered := valkey.IsValkeyErr(err)
	return err != nil && (!answered || transient(err))
}

// toBlame is the stream to log err under: none where the fault is the server's, which all its streams would repeat.
func toBlame(stream string, err error) string {
	if serverFault(err) {
		return ""
	}
	return stream
}

// transient: the server answers so for a while only.
func transient(err error) bool {
	for _, prefix := range []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "READONLY", "BUSY ", "MOVED", "ASK", "OOM", "NOREPLICAS"} {
		if hasPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// hasPrefix looks at the server's own words, wherever a script wrapped them.
func hasPrefix(err error, prefix string) bool {
	reply, ok := valkey.IsValkeyErr(err)
	if !ok {
		return false
	}
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	return strings.HasPrefix(text, prefix)
}
