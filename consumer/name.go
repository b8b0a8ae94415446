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
// of this host.
func (c *Consumer) takeName(ctx context.Context, conns *clients, scripts *scripts) (*nameLease, error) {
	l := &nameLease{c: c, token: rand.Text()}
	wait := backoff{base: 100 * time.Millisecond, cap: time.Second}
	if c.cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name the consumer: %w", err)
		}
		for slot := 0; slot < maxSlots; {
			ok, err := l.take(ctx, conns, scripts, host+"-"+strconv.Itoa(slot))
			switch {
			case ok:
				return l, nil
			case err == nil:
				slot++
			default:
				c.faults.warn("server not reached", "", err)
				if !wait.sleep(ctx.Done()) {
					return nil, ctx.Err()
				}
			}
		}
		return nil, fmt.Errorf("%w: %d slots of %s", ErrNameTaken, maxSlots, host)
	}
	deadline := time.Now().Add(c.cfg.NameTTL + time.Second)
	for {
		ok, err := l.take(ctx, conns, scripts, c.cfg.Name)
		if ok {
			return l, nil
		}
		if err != nil {
			c.faults.warn("server not reached", "", err)
			deadline = time.Now().Add(c.cfg.NameTTL + time.Second)
		} else if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: %q", ErrNameTaken, c.cfg.Name)
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
