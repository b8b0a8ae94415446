package consumer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Observer looks at a group from outside. It needs no running consumer, and is none.
type Observer struct {
	client  valkey.Client
	cfg     Config
	scripts *scripts
	lost    *losses
}

// NewObserver looks at the group that consumers with this config work in, of which Group, DeadLetter, NameLease and
// DegradedAfter matter here. The client stays the caller's.
func NewObserver(client valkey.Client, cfg Config) *Observer {
	return &Observer{client: client, cfg: cfg.withDefaults(), scripts: newScripts(), lost: &losses{}}
}

// lossBound is how many unread entries are counted at most to tell how many were lost.
const lossBound = 1000

// Health asks the server how the group stands on some streams. What only a running consumer knows stays zero: its name,
// what it cannot read, its breaker.
func (o *Observer) Health(ctx context.Context, streams ...string) (Health, error) {
	h := Health{Group: o.cfg.Group}
	var err error
	if h.At, err = serverTime(ctx, o.client); err != nil {
		return h, fmt.Errorf("health of group %s: %w", o.cfg.Group, err)
	}
	for len(streams) > 0 {
		n := min(len(streams), readerStreams)
		list, err := o.streams(ctx, streams[:n], h.At)
		if err != nil {
			return h, fmt.Errorf("health of group %s: %w", o.cfg.Group, err)
		}
		h.Streams = append(h.Streams, list...)
		streams = streams[n:]
	}
	if err := o.living(ctx, h.Streams); err != nil {
		return h, fmt.Errorf("health of group %s: %w", o.cfg.Group, err)
	}
	for i := range h.Streams {
		st := &h.Streams[i]
		for _, waits := range []struct {
			what string
			age  time.Duration
		}{{"pending", st.OldestAge}, {"unread", st.Unread}} {
			if waits.age >= o.cfg.DegradedAfter {
				st.Degraded, h.Degraded = true, true
				h.Reasons = append(h.Reasons, fmt.Sprintf("%s: its oldest %s entry is %s old", st.Stream, waits.what, waits.age.Round(time.Second)))
			}
		}
	}
	// A server that does not let itself be asked is not known to evict.
	if info, err := o.client.Do(ctx, o.client.B().Info().Section("memory").Build()).ToString(); err == nil {
		h.Eviction = evicting(info)
	}
	if h.Eviction != "" {
		h.Reasons = append(h.Reasons, "the server may evict streams: maxmemory-policy "+h.Eviction)
	}
	return h, nil
}

// streams asks about up to readerStreams streams in one round trip, and in a second one about what is unread.
func (o *Observer) streams(ctx context.Context, keys []string, now time.Time) ([]StreamHealth, error) {
	const each = 5
	b := o.client.B
	var cmds []valkey.Completed
	for _, key := range keys {
		cmds = append(cmds,
			b().XinfoStream().Key(key).Build(),
			b().XinfoGroups().Key(key).Build(),
			b().Xpending().Key(key).Group(o.cfg.Group).Start("-").End("+").Count(1).Build(),
			b().XinfoConsumers().Key(key).Group(o.cfg.Group).Build(),
			b().Xlen().Key(o.cfg.DeadLetter(key)).Build(),
		)
	}
	replies := o.client.DoMulti(ctx, cmds...)
	for _, r := range replies {
		if err := r.NonValkeyError(); err != nil {
			return nil, err
		}
	}
	out := make([]StreamHealth, len(keys))
	var behind []*StreamHealth
	var asks []valkey.LuaExec
	for i, key := range keys {
		r := replies[each*i:]
		h := &out[i]
		h.Stream = key
		// A reply that is an error is a stream or group that is not there just now: its zeros are right.
		h.DeadLetters, _ = r[4].AsInt64()
		h.Consumers, _ = consumers(r[3])
		h.oldest(r[2], now)
		if err := r[0].Error(); err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
			h.Fault = ErrNotStream.Error()
		}
		u, counted := h.group(o.cfg.Group, r[0], r[1])
		if counted {
			o.loss(ctx, h, u)
		}
		switch {
		case u.first == "" || compareIDs(u.last, u.top) >= 0:
		case compareIDs(u.first, u.last) > 0:
			h.Unread = age(u.first, now)
		default:
			behind = append(behind, h)
			asks = append(asks, valkey.LuaExec{Keys: []string{key}, Args: []string{"(" + u.last}})
		}
	}
	if len(asks) == 0 {
		return out, nil
	}
	for i, r := range o.scripts.next.ExecMulti(ctx, o.client, asks...) {
		if err := r.NonValkeyError(); err != nil {
			return nil, err
		}
		if id, err := r.ToString(); err == nil && id != "" { // else it was read or trimmed meanwhile
			behind[i].Unread = age(id, now)
		}
	}
	return out, nil
}

// living asks which of the names are held.
func (o *Observer) living(ctx context.Context, streams []StreamHealth) error {
	alive := map[string]bool{}
	var names []string
	var cmds []valkey.Completed
	for _, st := range streams {
		for _, c := range st.Consumers {
			if _, asked := alive[c.Name]; !asked {
				alive[c.Name] = false
				names = append(names, c.Name)
				cmds = append(cmds, o.client.B().Exists().Key(o.cfg.NameLease(c.Name)).Build())
			}
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, r := range o.client.DoMulti(ctx, cmds...) {
		n, err := r.AsInt64()
		if err != nil {
			return err
		}
		alive[names[i]] = n == 1
	}
	for _, st := range streams {
		for i := range st.Consumers {
			st.Consumers[i].Alive = alive[st.Consumers[i].Name]
		}
	}
	return nil
}

// oldest reads the first row of the pending list.
func (h *StreamHealth) oldest(res valkey.ValkeyResult, now time.Time) {
	rows, err := res.ToArray()
	if err != nil || len(rows) == 0 {
		return
	}
	row, err := rows[0].ToArray()
	if err != nil || len(row) != 4 {
		return
	}
	if id, err := row[0].ToString(); err == nil {
		h.OldestAge = age(id, now)
	}
	if ms, err := row[2].AsInt64(); err == nil {
		h.OldestIdle = time.Duration(ms) * time.Millisecond
	}
	if n, err := row[3].AsInt64(); err == nil {
		h.OldestTries = n
	}
}

// unread is what tells how many entries were lost.
type unread struct {
	added, read int64
	length      int64
	last        string // last delivered id
	first, top  string // ids of the stream's first entry, "" if it is empty, and of its last ever
}

// group reads what XINFO STREAM and XINFO GROUPS say of our group. It is false where what was read cannot be counted.
func (h *StreamHealth) group(group string, stream, groups valkey.ValkeyResult) (unread, bool) {
	info, err := stream.AsMap()
	if err != nil {
		return unread{}, false
	}
	u := unread{added: number(info["entries-added"]), length: number(info["length"]), top: text(info["last-generated-id"])}
	h.Length = u.length
	if first := info["first-entry"]; first.IsArray() {
		if parts, err := first.ToArray(); err == nil && len(parts) > 0 {
			u.first = text(parts[0])
		}
	}
	list, err := groups.ToArray()
	if err != nil {
		return unread{}, false
	}
	u.last = "0-0"
	for i := range list {
		g, err := list[i].AsMap()
		if err != nil || text(g["name"]) != group {
			continue
		}
		h.Pending = number(g["pending"])
		u.last = text(g["last-delivered-id"])
		lag, read := g["lag"], g["entries-read"]
		if !lag.IsNil() {
			h.Lag, h.LagKnown = number(lag), true
		}
		u.read = number(read)
		return u, !read.IsNil()
	}
	h.NoGroup = true
	return u, false
}

// loss is entries added, less those read, less those still there to be read. The last are counted only where neither end
// of the stream tells.
func (o *Observer) loss(ctx context.Context, h *StreamHealth, u unread) {
	var left int64
	switch {
	case u.first == "" || compareIDs(u.last, u.top) >= 0:
	case compareIDs(u.first, u.last) > 0:
		left = u.length
	default:
		n, err := o.scripts.count.Exec(ctx, o.client, []string{h.Stream}, []string{"(" + u.last, strconv.Itoa(lossBound + 1)}).AsInt64()
		if err != nil || n > lossBound {
			return
		}
		left = n
	}
	h.Lost, h.LostKnown = o.lost.most(h.Stream, max(0, u.added-u.read-left)), true
	if h.Lost > 0 {
		h.Lag, h.LagKnown = 0, false
	}
}

// serverTime is the server's clock.
func serverTime(ctx context.Context, client valkey.Client) (time.Time, error) {
	parts, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
	if err != nil {
		return time.Time{}, err
	}
	if len(parts) != 2 {
		return time.Time{}, errShortReply
	}
	return time.Unix(parts[0], parts[1]*1000).UTC(), nil
}
