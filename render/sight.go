package render

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// archived marks the key of a string beside a stream.
const archived = ":archived"

// sort picks the streams of a page of keys that something is to be asked about: new ones, and those that sleep.
func (d *Discovery) sort(keys []string) (page []*stream) {
	for _, key := range keys {
		if s := d.found[key]; s != nil {
			s.pass = d.pass
			if s.asleep {
				page = append(page, s)
			}
			continue
		}
		if strings.HasSuffix(key, archived) {
			continue
		}
		game, err := feed.ParseStream(key)
		switch {
		case err != nil:
			d.seen.malformed++
		case !d.tenants[game.Tenant]:
			d.seen.unknown++
		default:
			page = append(page, &stream{key: key, game: game, pass: d.pass})
		}
	}
	return page
}

// ask sends the given commands, then what is to be asked of each stream of a page, in one round trip: whether one that
// sleeps has grown; of what type a new key is, and how far the group has read it.
func (d *Discovery) ask(ctx context.Context, node valkey.Client, page []*stream, first ...valkey.Completed) ([]*stream, []valkey.ValkeyResult) {
	commands := first
	for _, s := range page {
		if s.asleep {
			commands = append(commands, beyond(node, s))
			continue
		}
		commands = append(commands,
			node.B().Type().Key(s.key).Build(),
			node.B().XinfoGroups().Key(s.key).Build())
	}
	if len(commands) == 0 {
		return nil, nil
	}
	return page, node.DoMulti(ctx, commands...)
}

// beyond asks for an entry that the group was not given yet: empty where there is none.
func beyond(node valkey.Client, s *stream) valkey.Completed {
	return node.B().Xrange().Key(s.key).Start("(" + s.delivered).End("+").Count(1).Build()
}

// take reads the answers about a page and joins what is to be read.
func (d *Discovery) take(ctx context.Context, node valkey.Client, page []*stream, replies []valkey.ValkeyResult) error {
	var join, quiet []*stream
	for _, s := range page {
		if s.asleep {
			entries, err := replies[0].AsXRange()
			replies = replies[1:]
			if err := outage(err); err != nil {
				return err
			}
			if err != nil || len(entries) > 0 {
				join = append(join, s)
			}
			continue
		}
		kind, typeErr := replies[0].ToString()
		group, groupErr := d.groupOf(replies[1])
		replies = replies[2:]
		if err := outage(typeErr); err != nil {
			return err
		}
		switch {
		case typeErr == nil && kind == "none": // gone since
		case typeErr == nil && kind != "stream":
			d.name(s.key, kind)
		case groupErr == nil && d.isQuiet(s, group):
			quiet = append(quiet, s)
		default:
			join = append(join, s)
		}
	}
	final, others, err := d.divide(ctx, node, quiet)
	if err != nil {
		return err
	}
	for _, s := range final {
		s.asleep = true
		d.found[s.key] = s
	}
	d.join(append(join, others...))
	return nil
}

func (d *Discovery) join(streams []*stream) {
	if len(streams) == 0 {
		return
	}
	keys := make([]string, len(streams))
	for i, s := range streams {
		s.joined, s.asleep = true, false
		s.changed = time.Now()
		keys[i], d.found[s.key] = s.key, s
		delete(d.strange, s.key)
	}
	d.cfg.Streams.Join(keys...)
}

// maxNamed bounds how many keys of another type are named, so that a keyspace full of them does not fill the log.
const maxNamed = 20

// name says once that a key is no stream. It is looked at again in each pass, and joined should it become one.
func (d *Discovery) name(key, kind string) {
	_, named := d.strange[key]
	d.strange[key] = d.pass
	switch {
	case named:
	case len(d.strange) <= maxNamed:
		d.cfg.Logger.Error("the key of a stream holds something else: its game is not read", "stream", key, "type", kind)
	case len(d.strange) == maxNamed+1:
		d.cfg.Logger.Error("more keys of streams hold something else: they are counted, no longer named")
	}
}

// forget lets go of what the pass did not see: sleeping streams and keys of another type that were deleted. The stream
// of a joined game is kept: its reader makes it anew.
func (d *Discovery) forget() {
	for key, s := range d.found {
		if s.asleep && s.pass != d.pass {
			delete(d.found, key)
		}
	}
	for key, pass := range d.strange {
		if pass != d.pass {
			delete(d.strange, key)
		}
	}
}

// group is how far our group has come with a stream.
type group struct {
	pending   int64
	delivered string // entry id
}

// groupOf finds our group among those of a stream; an error where it is not there.
func (d *Discovery) groupOf(reply valkey.ValkeyResult) (group, error) {
	list, err := reply.ToArray()
	if err != nil {
		return group{}, err
	}
	for _, item := range list {
		fields, err := item.AsMap()
		if err != nil {
			return group{}, err
		}
		name, pending, delivered := fields["name"], fields["pending"], fields["last-delivered-id"]
		if text, err := name.ToString(); err != nil || text != d.cfg.Group {
			continue
		}
		var g group
		if g.pending, err = pending.AsInt64(); err != nil {
			return group{}, fmt.Errorf("pending of group %s: %w", d.cfg.Group, err)
		}
		if g.delivered, err = delivered.ToString(); err != nil {
			return group{}, fmt.Errorf("last-delivered-id of group %s: %w", d.cfg.Group, err)
		}
		return g, nil
	}
	return group{}, fmt.Errorf("no group %s", d.cfg.Group)
}

// outage returns the errors that are not the server's own word about one key.
func outage(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := valkey.IsValkeyErr(err); ok {
		return nil
	}
	return fmt.Errorf("look at streams: %w", err)
}

// timeOf is the instant in an entry id; the zero time where it has none that makes sense.
func timeOf(entryID string) time.Time {
	text, _, _ := strings.Cut(entryID, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
