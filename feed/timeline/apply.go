package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// Writer applies lines, of all tenants.
type Writer struct {
	pool       *pgxpool.Pool
	locksFirst bool // see NewRerenderer
	fronts     fronts
}

// NewWriter returns a writer over a pool of [RoleRender].
func NewWriter(pool *pgxpool.Pool) *Writer { return &Writer{pool: pool} }

// Applied is what became of a batch.
type Applied struct {
	// Every game of the batch at least once; of each game in order of version. A game that was released has a change
	// of its own for that.
	Changes  []feed.Change
	Rejected []Rejection // by Index
}

// Rejection says why an input can never be stored. Nothing of it was written.
type Rejection struct {
	Index  int // into the lines given to Apply
	Reason string
}

// BusyError says that games stayed locked by others: the listed inputs are to be applied again, and the rest of the batch
// is written and answered. It counts as [Unavailable].
type BusyError struct {
	Indexes []int // into the lines given to Apply, ascending
	Err     error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d lines of locked games: %v", len(e.Indexes), e.Err)
}
func (e *BusyError) Unwrap() error { return e.Err }

// maxStatementBytes bounds what one statement carries; a batch above it is written in several.
const maxStatementBytes = 16 << 20

// Apply writes lines in any order, repeats allowed: whatever is newer than what is stored enters, the rest is stale and
// changes nothing. Then it releases the games that a line of the batch may release, won or stale. A line that cannot be
// stored is rejected alone.
//
// An error leaves open what was written; applying the same lines again mends it. A [*BusyError] is exact.
func (w *Writer) Apply(ctx context.Context, lines []feed.Line) (Applied, error) {
	a := application{writer: w, lines: lines, texts: make([]encoded, len(lines)), releases: make(map[feed.GameKey]feed.ID)}
	err := a.run(ctx)
	slices.SortFunc(a.applied.Rejected, func(x, y Rejection) int { return cmp.Compare(x.Index, y.Index) })
	if err == nil && len(a.busy) > 0 {
		slices.Sort(a.busy)
		err = &BusyError{a.busy, a.busyErr}
	}
	if err != nil {
		return a.applied, fmt.Errorf("apply %d lines: %w", len(lines), err)
	}
	return a.applied, nil
}

// application is one call of Apply.
type application struct {
	writer   *Writer
	lines    []feed.Line
	texts    []encoded
	applied  Applied
	releases map[feed.GameKey]feed.ID // games that a stored input may release; the newest event that reveals, or noReveal
	busy     []int                    // inputs of games that stayed locked
	busyErr  error
}

func (a *application) run(ctx context.Context) error {
	var inputs []int
	size := 0
	for i := range a.lines {
		var err error
		if a.texts[i], err = encode(&a.lines[i]); err != nil {
			a.reject(i, err)
			continue
		}
		if size += a.texts[i].bytes; size > maxStatementBytes && len(inputs) > 0 {
			if err := a.write(ctx, inputs); err != nil {
				return err
			}
			inputs, size = nil, a.texts[i].bytes
		}
		inputs = append(inputs, i)
	}
	if err := a.write(ctx, inputs); err != nil {
		return err
	}
	return a.release(ctx)
}

// write appends what it can of the inputs listed, and stores the rest.
func (a *application) write(ctx context.Context, inputs []int) error {
	left, err := a.append(ctx, inputs)
	if err != nil {
		return err
	}
	return a.store(ctx, left)
}

// store stores the inputs listed by one statement; where that fails through the fault of a row, by halves, so that in the
// end the fault is one input's; where a game is locked, by game.
func (a *application) store(ctx context.Context, inputs []int) error {
	if len(inputs) == 0 {
		return nil
	}
	batch := newBatch(a.lines, a.texts, inputs)
	changes, err := a.writer.store(ctx, batch)
	if hasState(err, stateStalePlan) {
		changes, err = a.writer.store(ctx, batch)
	}
	var pg *pgconn.PgError
	switch {
	case err == nil:
		if !a.writer.locksFirst { // it never appends
			a.writer.fronts.stored(batch, changes)
		}
		a.wrote(inputs, changes)
		return nil
	case hasState(err, stateLockTimeout) && len(batch.keys) > 1:
		return a.storeEach(ctx, batch.keys, inputs)
	case hasState(err, stateLockTimeout):
		a.postpone(inputs, err)
		return nil
	case !errors.As(err, &pg) || !faultOfRow(pg.Code):
		return err
	case len(inputs) == 1:
		a.reject(inputs[0], pg)
		return nil
	}
	half := len(inputs) / 2
	if err := a.store(ctx, inputs[:half]); err != nil {
		return err
	}
	return a.store(ctx, inputs[half:])
}

// wrote notes what became of inputs that were written.
func (a *application) wrote(inputs []int, changes []feed.Change) {
	a.applied.Changes = append(a.applied.Changes, changes...)
	for _, i := range inputs {
		a.mayRelease(&a.lines[i])
	}
}

func (a *application) mayRelease(line *feed.Line) {
	if !line.Releases() {
		return
	}
	by, ok := a.releases[line.Game]
	if !ok {
		by = noReveal
	}
	if line.Reveals {
		by = max(by, line.Event)
	}
	a.releases[line.Game] = by
}

func (a *application) storeEach(ctx context.Context, games []feed.GameKey, inputs []int) error {
	byGame := make(map[feed.GameKey][]int, len(games))
	for _, i := range inputs {
		byGame[a.lines[i].Game] = append(byGame[a.lines[i].Game], i)
	}
	for _, game := range games {
		if err := a.store(ctx, byGame[game]); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) reject(input int, why error) {
	a.applied.Rejected = append(a.applied.Rejected, Rejection{input, why.Error()})
}

func (a *application) postpone(inputs []int, err error) {
	a.busy, a.busyErr = append(a.busy, inputs...), err
}

// release comes after all is stored.
func (a *application) release(ctx context.Context) error {
	games := slices.SortedFunc(maps.Keys(a.releases), feed.GameKey.Compare)
	changes, err := a.writer.release(ctx, games, a.releases)
	if hasState(err, stateLockTimeout) {
		changes, err = nil, nil
		for _, game := range games {
			released, lockErr := a.writer.release(ctx, []feed.GameKey{game}, a.releases)
			if hasState(lockErr, stateLockTimeout) {
				a.postpone(a.releasing(game), lockErr)
			} else if lockErr != nil {
				return lockErr
			}
			changes = append(changes, released...)
		}
	}
	a.applied.Changes = append(a.applied.Changes, changes...)
	return err
}

// releasing lists the inputs that may release a game.
func (a *application) releasing(game feed.GameKey) []int {
	var inputs []int
	for i := range a.lines {
		if a.lines[i].Game == game && a.lines[i].Releases() {
			inputs = append(inputs, i)
		}
	}
	return inputs
}
