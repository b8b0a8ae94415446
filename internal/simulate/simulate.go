// Package simulate plays whole games of all three modes into the streams of any number of tenants, as the engines and
// the foreign writers of the wire would: with corrections, retractions, kinds nobody knows, and events that come late.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// Config says what is played. The same seed, tenants and games play the same events in the same order; ids and times
// are of the day.
type Config struct {
	Tenants []feed.TenantID
	Games   int         // played at a time in each tenant, named g1, g2, ... after those that are there; 0 means 3
	Rate    float64     // events a second over all games; 0 means 10
	Seed    uint64      //
	Events  int         // how many events are written; 0 means until the context ends
	Endless feed.GameID // where set, one game of each tenant has this name and never ends: its page never stands still
	Logger  *slog.Logger
}

// Simulator plays by a [Config].
type Simulator struct {
	config   Config
	client   valkey.Client
	mint     *feed.Mint
	producer *feed.Producer
	pace     *rand.Rand
}

// New makes a simulator that mints by mint. The client stays the caller's to close.
func New(config Config, client valkey.Client, mint *feed.Mint) *Simulator {
	if config.Games == 0 {
		config.Games = 3
	}
	if config.Rate == 0 {
		config.Rate = 10
	}
	return &Simulator{
		config: config, client: client, mint: mint, producer: feed.NewProducer(client, mint),
		pace: rand.New(rand.NewPCG(config.Seed, 1)), // #nosec G404 -- pauses between events
	}
}

const (
	retryPause  = time.Second // between attempts while the server is away
	maxBacklog  = time.Second // a simulator that was held up makes up for no more than that
	scanAtATime = 1000        // keys
)

// Run plays until the events are written or the context ends, and says how many events it wrote. While the server is
// away it tries again each second; an event whose reply was lost may then be there twice.
func (s *Simulator) Run(ctx context.Context) (written int, err error) {
	first := make(map[feed.TenantID]int, len(s.config.Tenants))
	for _, tenant := range s.config.Tenants {
		if err := s.insist(ctx, func() (err error) { first[tenant], err = s.firstFree(ctx, tenant); return err }); err != nil {
			return 0, ended(err)
		}
	}
	script := newScript(s.config.Seed, s.config.Tenants, s.config.Games, s.config.Endless, first)
	due := time.Now()
	for s.config.Events == 0 || written < s.config.Events {
		next := script.next()
		if next.way != reserved {
			if due = s.wait(ctx, due); ctx.Err() != nil {
				return written, nil
			}
			written++
		}
		if err := s.insist(ctx, func() error { return s.write(ctx, next) }); err != nil {
			return written - 1, ended(err)
		}
	}
	return written, nil
}

// wait waits until the next event is due, by pauses as irregular as those of people, and says when that was.
func (s *Simulator) wait(ctx context.Context, last time.Time) time.Time {
	due := last.Add(time.Duration(s.pace.ExpFloat64() / s.config.Rate * float64(time.Second)))
	if held := time.Now().Add(-maxBacklog); due.Before(held) {
		due = held
	}
	sleep(ctx, time.Until(due))
	return due
}

// ended takes the end of the context for what it is: the end of the play.
func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// insist repeats what fails until it succeeds. Its error is the context's, or that a key is no stream, which no
// repetition mends.
func (s *Simulator) insist(ctx context.Context, do func() error) error {
	for attempt := 0; ; attempt++ {
		err := do()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var refusal *valkey.ValkeyError
		if err == nil || errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "WRONGTYPE") {
			return err
		}
		if attempt == 0 {
			s.config.Logger.Warn("simulated event not written, trying again each second", "err", err)
		}
		sleep(ctx, retryPause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// write does one step and remembers the id it got.
func (s *Simulator) write(ctx context.Context, next step) (err error) {
	fields := next.fields
	if next.target != nil {
		fields = append(fields[:len(fields):len(fields)], feed.Field{Name: "target", Value: next.target.id.String()})
	}
	if next.endsIn > 0 {
		perGame := s.config.Rate / float64(len(s.config.Tenants)*s.config.Games)
		ends := time.Now().Add(time.Duration(float64(next.endsIn) / perGame * float64(time.Second)))
		fields = append(fields[:len(fields):len(fields)], feed.Field{Name: "ends_ms", Value: strconv.FormatInt(ends.UnixMilli(), 10)})
	}
	switch next.way {
	case reserved:
		next.entry.id, err = s.mint.Next()
	case delivered:
		err = s.deliverLate(ctx, next.game, next.entry.id, fields)
	case foreign:
		next.entry.id, err = s.appendForeign(ctx, next.game, fields)
	default:
		next.entry.id, err = s.producer.Append(ctx, next.game, fields)
	}
	return err
}

// appendForeign writes as `XADD key * ...` does. The EVT id is the one that readers derive from the entry id.
func (s *Simulator) appendForeign(ctx context.Context, game feed.GameKey, fields feed.Fields) (feed.ID, error) {
	cmd := s.client.B().Xadd().Key(game.Stream()).Id("*").FieldValue()
	for name, value := range fields.All() {
		cmd = cmd.FieldValue(name, value)
	}
	entry, err := s.client.Do(ctx, cmd.Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("append to %s by a foreign writer: %w", game, err)
	}
	return feed.IDOfEntry(entry)
}

// deliverLate brings an event whose id has long been passed. A stream only grows upwards, so such an event comes the
// way a retried dead letter does: over the tenant's retry stream, under its own old id.
func (s *Simulator) deliverLate(ctx context.Context, game feed.GameKey, id feed.ID, fields feed.Fields) error {
	cmd := s.client.B().Xadd().Key(game.Tenant.RetryStream()).Id("*").FieldValue().
		FieldValue("dead.stream", game.Stream()).FieldValue("dead.entry", id.EntryID()).FieldValue("dead.attempts", "1").
		FieldValue("f:id", id.String())
	for name, value := range fields.All() {
		cmd = cmd.FieldValue("f:"+name, value)
	}
	if err := s.client.Do(ctx, cmd.Build()).Error(); err != nil {
		return fmt.Errorf("deliver %s of %s late: %w", id, game, err)
	}
	return nil
}

// firstFree is the number after the highest of the tenant's games g1, g2, ... that have a stream.
func (s *Simulator) firstFree(ctx context.Context, tenant feed.TenantID) (int, error) {
	prefix := feed.GameKey{Tenant: tenant, Game: "g"}.Stream()
	first := 1
	for cursor := uint64(0); ; {
		page, err := s.client.Do(ctx, s.client.B().Scan().Cursor(cursor).Match(prefix+"*").Count(scanAtATime).Build()).AsScanEntry()
		if err != nil {
			return 0, fmt.Errorf("look for games of %s: %w", tenant, err)
		}
		for _, key := range page.Elements {
			if n, err := strconv.Atoi(strings.TrimPrefix(key, prefix)); err == nil && n >= first && n < maxNumber {
				first = n + 1
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return first, nil
		}
	}
}

// maxNumber bounds which streams are taken for games of ours.
const maxNumber = 1_000_000_000
