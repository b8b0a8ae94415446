package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Once names a batch, so that it is appended once however often it is sent.
type Once struct {
	Key         string        // the sender's name of the batch within its game; "": it has none, and every call appends
	Fingerprint string        // of what the batch says
	Keep        time.Duration // how long the name is remembered
}

// ErrOtherBatch says that the name of a batch was used for another one.
var ErrOtherBatch = errors.New("another batch had this name")

// One script, so that a batch and the memory of it are one step: a crash or a lost reply in between cannot part them.
// ARGV: fingerprint, ms to remember, then of each event the entry id, the EVT id, the number of its other arguments, and
// these. Answers whether the batch was there already, and its EVT ids.
var appendOnce = valkey.NewLuaScript(`
local known = redis.call('HMGET', KEYS[2], 'fingerprint', 'ids')
if known[1] then
  return {known[1] == ARGV[1] and 'again' or 'other', known[2]}
end
local ids = {}
local i = 3
while i <= #ARGV do
  local n = tonumber(ARGV[i + 2])
  redis.call('XADD', KEYS[1], ARGV[i], 'id', ARGV[i + 1], unpack(ARGV, i + 3, i + 2 + n))
  ids[#ids + 1] = ARGV[i + 1]
  i = i + 3 + n
end
ids = table.concat(ids, ' ')
if ARGV[2] ~= '0' then
  redis.call('HSET', KEYS[2], 'fingerprint', ARGV[1], 'ids', ids)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return {'new', ids}
`)

// MaxOnceFields bounds the fields of one event of [Producer.AppendOnce].
const MaxOnceFields = 1000

// AppendOnce appends all events of a batch or none, in order and with nothing of others in between, and returns their
// ids. A batch that was appended before under the same name is not appended again: again is true, the ids are those of
// the first time. It returns [ErrOtherBatch] where the name was another batch's. After any other error the batch may be
// there or not; with a name it is safe to send it again.
func (p *Producer) AppendOnce(ctx context.Context, game GameKey, once Once, batch []Fields) (ids []ID, again bool, err error) {
	for _, fields := range batch {
		if len(fields) > MaxOnceFields {
			return nil, false, fmt.Errorf("append to %s: an event of %d fields, want at most %d", game, len(fields), MaxOnceFields)
		}
	}
	for range maxHeals {
		arguments, err := p.arguments(game, once, batch)
		if err != nil {
			return nil, false, err
		}
		reply, err := appendOnce.Exec(ctx, p.client, []string{game.Stream(), game.once(once.Key)}, arguments).AsStrSlice()
		// Ids of a batch rise, so that the first is refused or none.
		if refusal, ok := valkey.IsValkeyErr(err); ok && strings.Contains(refusal.Error(), "The ID specified in XADD is equal or smaller") {
			if err := p.learnTop(ctx, game); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("append %d events to %s: %w", len(batch), game, refused(err))
		}
		return readOnce(game, reply)
	}
	return nil, false, fmt.Errorf("append %d events to %s: %w", len(batch), game, ErrNonMonotonic)
}

func (p *Producer) arguments(game GameKey, once Once, batch []Fields) ([]string, error) {
	keep := "0"
	if once.Key != "" {
		keep = strconv.FormatInt(max(1, once.Keep.Milliseconds()), 10)
	}
	arguments := []string{once.Fingerprint, keep}
	for _, fields := range batch {
		id, err := p.next(game)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, id.EntryID(), id.String(), strconv.Itoa(2*len(fields)))
		for _, field := range fields {
			arguments = append(arguments, field.Name, field.Value)
		}
	}
	return arguments, nil
}

func readOnce(game GameKey, reply []string) (ids []ID, again bool, err error) {
	if len(reply) != 2 {
		return nil, false, fmt.Errorf("append to %s: the script answered %d values, want 2", game, len(reply))
	}
	if reply[0] == "other" {
		return nil, false, fmt.Errorf("append to %s: %w", game, ErrOtherBatch)
	}
	for _, text := range strings.Fields(reply[1]) {
		id, err := ParseID(text)
		if err != nil {
			return nil, false, fmt.Errorf("append to %s: %w", game, err)
		}
		ids = append(ids, id)
	}
	return ids, reply[0] == "again", nil
}

// once is where the name of a batch is remembered: emq:{tenant}:once:game:name, in the slot of the stream.
func (k GameKey) once(name string) string {
	return "emq:{" + string(k.Tenant) + "}:once:" + string(k.Game) + ":" + name
}
