package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/valkey-io/valkey-go"
)

// ErrNonMonotonic says that the stream already holds an id at or above the one appended. The floor survives trimming
// a stream to nothing.
var ErrNonMonotonic = errors.New("id is at or below the stream's top")

// ErrNoMore says that a stream takes no events of ours, now or later: its key is of another type, or no EVT id is left above
// its top.
var ErrNoMore = errors.New("the stream takes no more events")

// AppendEvent appends under an id of the caller's choice: entry <unix ms>-<tail>, field id first, then the fields in
// order. A refusal wraps [ErrNonMonotonic] and is not mended here; nothing is ever appended under a server-made id.
func AppendEvent(ctx context.Context, client valkey.Client, game GameKey, id ID, fields Fields) error {
	return appended(game, id, client.Do(ctx, xadd(client, game, id, fields)))
}

func xadd(client valkey.Client, game GameKey, id ID, fields Fields) valkey.Completed {
	cmd := client.B().Xadd().Key(game.Stream()).Id(id.EntryID()).FieldValue().FieldValue("id", id.String())
	for _, f := range fields {
		cmd = cmd.FieldValue(f.Name, f.Value)
	}
	return cmd.Build()
}

func appended(game GameKey, id ID, reply valkey.ValkeyResult) error {
	err := reply.Error()
	if refusal, ok := valkey.IsValkeyErr(err); ok && strings.Contains(refusal.Error(), "The ID specified in XADD is equal or smaller") {
		return fmt.Errorf("append %s to %s: %w", id, game, ErrNonMonotonic)
	}
	if err != nil {
		return fmt.Errorf("append %s to %s: %w", id, game, refused(err))
	}
	return nil
}

// refused tells what no repetition mends from what may pass.
func refused(err error) error {
	if refusal, ok := valkey.IsValkeyErr(err); ok && strings.Contains(refusal.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: %w", ErrNoMore, err)
	}
	return err
}

// Producer appends events under ids of its own mint. Safe for concurrent use.
type Producer struct {
	client valkey.Client
	mint   *Mint

	mu    sync.Mutex
	ahead map[GameKey]ID // tops of streams that run ahead of the mint; guarded by mu
}

// NewProducer makes a producer; the client stays the caller's to close.
func NewProducer(client valkey.Client, mint *Mint) *Producer {
	return &Producer{client: client, mint: mint, ahead: make(map[GameKey]ID)}
}

// maxHeals bounds how often one append goes above a stream's top that others keep raising.
const maxHeals = 16

// Append appends one event and returns its id. Where the stream's top is above the mint's clock it mints above that
// top. After an error that does not wrap [ErrNonMonotonic] the event may have been appended all the same.
func (p *Producer) Append(ctx context.Context, game GameKey, fields Fields) (ID, error) {
	receipts, err := p.AppendAll(ctx, game, []Fields{fields})
	if err != nil {
		return 0, err
	}
	return receipts[0].ID, receipts[0].Err
}

// Receipt is what became of one event of a batch: its id, or why it was not appended.
type Receipt struct {
	ID  ID
	Err error
}

// AppendAll appends events of one game in one pipeline and gives a receipt for each, by index, from the server's own
// reply to it. Events keep their order unless the stream's top moved in between: those refused then follow the others.
// The error is of the batch: no id could be made, or the stream's top could not be read; receipts say what happened
// before that.
func (p *Producer) AppendAll(ctx context.Context, game GameKey, batch []Fields) ([]Receipt, error) {
	receipts := make([]Receipt, len(batch))
	waiting := make([]int, len(batch))
	for i := range batch {
		waiting[i] = i
	}
	for range maxHeals {
		cmds := make([]valkey.Completed, len(waiting))
		for n, i := range waiting {
			id, err := p.next(game)
			if err != nil {
				return receipts, err
			}
			receipts[i] = Receipt{ID: id}
			cmds[n] = xadd(p.client, game, id, batch[i])
		}
		refused := waiting[:0]
		for n, reply := range p.client.DoMulti(ctx, cmds...) {
			i := waiting[n]
			receipts[i].Err = appended(game, receipts[i].ID, reply)
			if errors.Is(receipts[i].Err, ErrNonMonotonic) {
				refused = append(refused, i)
			}
		}
		if waiting = refused; len(waiting) == 0 {
			return receipts, nil
		}
		if err := p.learnTop(ctx, game); err != nil {
			return receipts, err
		}
	}
	return receipts, nil
}

// next mints above the game's top where that is known to run ahead. The mint's own clock is left alone: one stream
// with an id of the far future must not drag the ids of all others with it.
func (p *Producer) next(game GameKey) (ID, error) {
	id, err := p.mint.Next()
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	top, ok := p.ahead[game]
	if !ok {
		return id, nil
	}
	if id > top {
		delete(p.ahead, game)
		return id, nil
	}
	if id, err = p.mint.above(top); err != nil {
		delete(p.ahead, game) // it may be emptied
		return 0, fmt.Errorf("append to %s: %w: %w", game, ErrNoMore, err)
	}
	p.ahead[game] = id
	return id, nil
}

func (p *Producer) learnTop(ctx context.Context, game GameKey) error {
	info, err := p.client.Do(ctx, p.client.B().XinfoStream().Key(game.Stream()).Build()).AsMap()
	if refusal, ok := valkey.IsValkeyErr(err); ok && strings.Contains(refusal.Error(), "no such key") {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ahead, game) // deleted since it refused us: the floor is gone with it
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the top of %s: %w", game, refused(err))
	}
	last := info["last-generated-id"]
	entry, err := last.ToString()
	if err != nil {
		return fmt.Errorf("read the top of %s: %w", game, err)
	}
	top, err := IDOfEntry(entry)
	if err != nil {
		return fmt.Errorf("append to %s: %w: its top has no EVT id: %w", game, ErrNoMore, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead[game] = max(p.ahead[game], top)
	return nil
}
