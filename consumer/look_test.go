package consumer_test

import (
	"slices"
	"strings"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// row is one row of the pending list.
type row struct {
	id, owner string
	idle      time.Duration
	attempts  int64
}

func (r *rig) pending() []row {
	r.t.Helper()
	res := r.do("XPENDING", r.stream, "g", "-", "+", "100000")
	list, err := res.ToArray()
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOGROUP") {
			return nil
		}
		r.t.Fatal(err)
	}
	out := make([]row, len(list))
	for i := range list {
		v, err := list[i].ToArray()
		if err != nil {
			r.t.Fatal(err)
		}
		ms, _ := v[2].AsInt64()
		out[i].id, _ = v[0].ToString()
		out[i].owner, _ = v[1].ToString()
		out[i].idle = time.Duration(ms) * time.Millisecond
		out[i].attempts, _ = v[3].AsInt64()
	}
	return out
}

func (r *rig) letters() *consumer.DeadLetters { return consumer.NewDeadLetters(r.client, r.config()) }

func (r *rig) deadLetters() []consumer.DeadLetter {
	r.t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	list, err := r.letters().List(ctx, r.stream, "", 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// groups names the groups of the stream.
func (r *rig) groups() string {
	list, err := r.do("XINFO", "GROUPS", r.stream).ToArray()
	if err != nil {
		return ""
	}
	var names []string
	for i := range list {
		g, err := list[i].AsMap()
		if err != nil {
			r.t.Fatal(err)
		}
		name := g["name"]
		text, _ := name.ToString()
		names = append(names, text)
	}
	return strings.Join(names, " ")
}

// names lists the consumers of the group, sorted.
func (r *rig) names() []string {
	r.t.Helper()
	list, err := r.do("XINFO", "CONSUMERS", r.stream, "g").ToArray()
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for i := range list {
		c, err := list[i].AsMap()
		if err != nil {
			r.t.Fatal(err)
		}
		name := c["name"]
		text, _ := name.ToString()
		names = append(names, text)
	}
	slices.Sort(names)
	return names
}

// connections counts the connections of a client name to the server.
func (r *rig) connections(name string) (n int) {
	r.t.Helper()
	text, err := r.do("CLIENT", "LIST").ToString()
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Count(text, " name="+name+" ")
}

// pendingOf and readBy look at another group of the stream.
func (r *rig) pendingOf(group string) int64 {
	r.t.Helper()
	parts, err := r.do("XPENDING", r.stream, group).ToArray()
	if err != nil {
		return -1
	}
	n, err := parts[0].AsInt64()
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) readBy(group string) int64 {
	r.t.Helper()
	list, err := r.do("XINFO", "GROUPS", r.stream).ToArray()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list {
		g, err := list[i].AsMap()
		if err != nil {
			r.t.Fatal(err)
		}
		name, read := g["name"], g["entries-read"]
		if text, _ := name.ToString(); text == group {
			n, _ := read.AsInt64()
			return n
		}
	}
	return -1
}
