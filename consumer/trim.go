package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// DefaultGrace is the Grace of a TrimPolicy that names none.
const DefaultGrace = 7 * 24 * time.Hour

// TrimPolicy says which entries of a stream may go.
type TrimPolicy struct {
	// Before is the instant, by the time in their ids, from which on entries stay.
	Before time.Time
	// Needs is a group without which nothing is removed, and which never counts as dead: that of the caller, who may be the
	// first to start again after a long time. "" is none.
	Needs string
	// Grace is how long every consumer of a group must have asked for nothing for the group to be dead: it holds nothing
	// any more. Of a group without consumers the server does not know that, so that the time begins when Trim first finds
	// it in the way: an idle consumer that Trim makes there, trim:<last delivered id>, says since when. 0 is DefaultGrace.
	Grace time.Duration
}

// Trimmed is what became of a stream.
type Trimmed struct {
	Removed int64
	Held    string   // the group that keeps the stream longest beyond Before, "" if none does
	Dead    []string // groups in the way that were passed over
}

// Trim removes the old entries of a stream that every group has settled: those before the policy's instant, before the
// first that any living group has pending, and before the first that it was not given yet. Each step decides and removes
// in one script, so that nothing is read or settled in between, and removes a bounded number of entries. A stream that is
// not there is an empty one; a key of another type is ErrNotStream.
func Trim(ctx context.Context, client valkey.Client, stream string, policy TrimPolicy) (Trimmed, error) {
	if policy.Grace == 0 {
		policy.Grace = DefaultGrace
	}
	script := valkey.NewLuaScript(trimScript)
	args := []string{
		strconv.FormatInt(max(0, policy.Before.UnixMilli()), 10) + "-0", strconv.FormatInt(policy.Grace.Milliseconds(), 10),
		policy.Needs, strconv.Itoa(trimStep),
	}
	var out Trimmed
	for {
		step, more, err := trimmed(script.Exec(ctx, client, []string{stream}, args))
		if err != nil {
			return out, fmt.Errorf("trim %s: %w", stream, err)
		}
		out.Removed += step.Removed
		out.Held = step.Held
		for _, group := range step.Dead {
			if !slices.Contains(out.Dead, group) {
				out.Dead = append(out.Dead, group)
			}
		}
		if !more {
			return out, nil
		}
	}
}

// trimStep is how many entries are removed at most while the server does nothing else.
const trimStep = 10_000

// trimmed reads the answer of trimScript.
func trimmed(res valkey.ValkeyResult) (step Trimmed, more bool, err error) {
	parts, err := res.ToArray()
	if err != nil {
		if strings.Contains(err.Error(), "WRONGTYPE") {
			err = ErrNotStream
		}
		return step, false, err
	}
	if len(parts) != 4 {
		return step, false, errShortReply
	}
	removed, err1 := parts[0].AsInt64()
	again, err2 := parts[1].AsInt64()
	held, err3 := parts[2].ToString()
	dead, err4 := parts[3].AsStrSlice()
	return Trimmed{Removed: removed, Held: held, Dead: dead}, again == 1, errors.Join(err1, err2, err3, err4)
}

// trimScript finds the first entry that must stay and removes what is before it. While whole nodes of the stream can go
// it lets the server take a bounded number of them and asks to be run again; what is left, less than a node, goes exactly.
// KEYS stream; ARGV first id to stay, grace ms, needed group, step. Removed, 1 if there is more, holding group, dead groups.
const trimScript = `
local key, bound, grace, needs = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', key) == 0 then return {0, 0, '', {}} end
local function named(row)
  local has = {}
  for i = 1, #row, 2 do has[row[i]] = row[i + 1] end
  return has
end
local function shorter(a, b) return #a < #b or #a == #b and a < b end
local function below(a, b) -- numbers of an id are above what Lua's can tell apart
  local ams, aseq = string.match(a, '(%d+)-(%d+)')
  local bms, bseq = string.match(b, '(%d+)-(%d+)')
  if ams ~= bms then return shorter(ams, bms) end
  return shorter(aseq, bseq)
end
local function dead(group, delivered)
  local mark, marked, youngest = 'trim:' .. delivered, nil, nil
  for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do
    local c = named(row)
    if c['name'] == mark then
      marked = c['idle']
    elseif string.sub(c['name'], 1, 5) == 'trim:' and c['pending'] == 0 then -- it was read since
      redis.call('XGROUP', 'DELCONSUMER', key, group, c['name'])
    elseif not youngest or c['idle'] < youngest then
      youngest = c['idle']
    end
  end
  if not youngest and not marked then redis.call('XGROUP', 'CREATECONSUMER', key, group, mark) end
  return (youngest or marked or -1) >= grace
end
local keep, held, gone, there = bound, '', {}, needs == ''
for _, row in ipairs(redis.call('XINFO', 'GROUPS', key)) do
  local g = named(row)
  local name, delivered, hold = g['name'], g['last-delivered-id'], bound
  there = there or name == needs
  if below(delivered, bound) then
    local unread = redis.call('XRANGE', key, '(' .. delivered, bound, 'COUNT', 1)[1]
    if unread then hold = unread[1] end
  end
  if g['pending'] > 0 then
    local first = redis.call('XPENDING', key, name)[2]
    if below(first, hold) then hold = first end
  end
  if below(hold, bound) then
    if name ~= needs and dead(name, delivered) then
      gone[#gone + 1] = name
    elseif below(hold, keep) then
      keep, held = hold, name
    end
  end
end
if not there then return {0, 0, needs, {}} end
local removed = redis.call('XTRIM', key, 'MINID', '~', keep, 'LIMIT', ARGV[4])
if removed > 0 then return {removed, 1, held, gone} end
return {redis.call('XTRIM', key, 'MINID', '=', keep), 0, held, gone}
`
