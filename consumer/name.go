package consumer

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"time"
)

// nameLease is a name held in the group by a key with a TTL.
type nameLease struct {
	c     *Consumer
	name  string
	token string // says that the holder is us
	until time.Time
}

// maxSlots is how many consumers of one group a host may run under default names.
const maxSlots = 1000

// takeName takes the configured name, waiting for it at most as long as a dead holder keeps it, or the lowest free slot
// of this host. A server that does not answer is waited for.
func (c *Consumer) takeName(ctx context.Context, conns *clients, scripts *scripts) (*nameLease, error) {
	l := &nameLease{c: c, token: rand.Text()}
	host, given := "", c.cfg.Name != ""
	if !given {
		var err error
		if host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("name the consumer: %w", err)
		}
	}
	wait := backoff{base: 100 * time.Millisecond, cap: time.Second}
	holderEnds := func() time.Time { return time.Now().Add(c.cfg.NameTTL + time.Second) }
	deadline := holderEnds()
	for slot := 0; ; {
		name := c.cfg.Name
		if !given {
			name = host + "-" + strconv.Itoa(slot)
		}
		ok, err := l.take(ctx, conns, scripts, name)
		switch {
		case ok:
			return l, nil
		case err != nil:
			c.faults.warn("server not reached", "", err)
			deadline = holderEnds()
		case !given && slot+1 < maxSlots:
			slot++
			continue
		case !given || time.Now().After(deadline):
			return nil, fmt.Errorf("%w: %q", ErrNameTaken, name)
		}
		if !wait.sleep(ctx.Done()) {
			return nil, ctx.Err()
		}
	}
}

// take takes a free name, or renews our own. It is false where somebody else holds it.
func (l *nameLease) take(ctx context.Context, conns *clients, scripts *scripts, name string) (bool, error) {
	asked := time.Now()
	ttl := strconv.FormatInt(l.c.cfg.NameTTL.Milliseconds(), 10)
	n, err := scripts.keepName.Exec(ctx, conns.cmd, []string{l.c.cfg.NameLease(name)}, []string{l.token, ttl}).AsInt64()
	if err != nil || n == 0 {
		return false, err
	}
	l.name = name
	l.until = asked.Add(l.c.cfg.NameTTL)
	return true, nil
}

// drop gives the name up, so that a restart has it at once.
func (l *nameLease) drop(ctx context.Context, conns *clients, scripts *scripts) {
	err := scripts.dropName.Exec(ctx, conns.cmd, []string{l.c.cfg.NameLease(l.name)}, []string{l.token}).Error()
	if err != nil {
		l.c.count.failures.Add(1) // it ends by itself
	}
}
