package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	latencyWarmup  = 20
	latencyEntries = 200
	latencyEvery   = 37 * time.Millisecond // no multiple of a display's frame
	latencyLimit   = 30 * time.Second      // until the last row is there
)

// latency plays one entry at a time into an idle system while a browser, a Go client and a blocked read watch the same
// stream. A browser draws 60 times a second: 8 ms of its time, on average, are the wait for that.
func latency(ctx context.Context, rig *rig, report *report) (err error) {
	databaseURL, _, drop, err := rig.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	game := feed.GameKey{Tenant: "bench", Game: "latency"}
	mint, err := feed.NewMint(1)
	if err != nil {
		return err
	}
	producer := feed.NewProducer(rig.client, mint)
	if _, err := producer.Append(ctx, game, feed.Fields{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}}); err != nil {
		return err
	}
	server, err := rig.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench")
	if err != nil {
		return err
	}
	defer func() {
		_, stopped := server.stop()
		err = errors.Join(err, stopped)
	}()

	reads := blockedReads(ctx, rig, game)
	tab, closeBrowser := browser(ctx)
	defer closeBrowser()
	watcher, err := newWatcher(ctx, server.listen, game)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, server.log.Bytes())
	}
	frames := make(map[feed.ID]time.Time)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for s := range watcher.seen {
			frames[s.evt] = s.at
		}
	}()
	if err := open(tab, server, game); err != nil {
		return fmt.Errorf("%w\n%s", err, server.log.Bytes())
	}
	sent := make(map[string]time.Time, latencyEntries)
	for i := range latencyWarmup + latencyEntries {
		at := time.Now()
		id, err := producer.Append(ctx, game, feed.Fields{{Name: "kind", Value: "scored"}, {Name: "player", Value: "alex"}, {Name: "pct", Value: strconv.Itoa(i % 101)}})
		if err != nil {
			return err
		}
		if i >= latencyWarmup {
			sent[id.String()] = at
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(latencyEvery):
		}
	}
	seen, err := rowsSeen(tab, sent)
	if err != nil {
		return err
	}
	if err := watcher.close(); err != nil {
		return err
	}
	<-collected
	read := <-reads
	var inBrowser, inClient, inRead []float64
	for id, at := range sent {
		evt, err := feed.ParseID(id)
		if err != nil {
			return err
		}
		inBrowser = append(inBrowser, seen[id].Sub(at).Seconds()*1000)
		inClient = append(inClient, frames[evt].Sub(at).Seconds()*1000)
		inRead = append(inRead, read[id].Sub(at).Seconds()*1000)
	}
	for _, s := range []struct {
		name string
		ms   []float64
	}{{"XADD to a row in the browser", inBrowser}, {"XADD to a frame beside that browser", inClient}, {"XADD to a blocked XREAD beside it", inRead}} {
		report.add(s.name+", p50", "ms", quantile(s.ms, 0.50))
		report.add(s.name+", p99", "ms", quantile(s.ms, 0.99))
	}
	report.compare("latency_browser", "XADD to a row in the browser, p50", "XADD to a frame beside that browser, p50")
	return nil
}

// blockedReads notes when each entry reaches the barest reader there is, and delivers when all have.
func blockedReads(ctx context.Context, rig *rig, game feed.GameKey) <-chan map[string]time.Time {
	done := make(chan map[string]time.Time, 1)
	go func() {
		seen := make(map[string]time.Time)
		defer func() { done <- seen }()
		for last := "$"; len(seen) < latencyWarmup+latencyEntries; {
			reply, err := rig.client.Do(ctx, rig.client.B().Xread().Count(100).Block(latencyLimit.Milliseconds()).
				Streams().Key(game.Stream()).Id(last).Build()).AsXRead()
			if err != nil {
				return
			}
			now := time.Now()
			for _, entry := range reply[game.Stream()] {
				seen[entry.FieldValues["id"]], last = now, entry.ID
			}
		}
	}()
	return done
}

func browser(ctx context.Context) (context.Context, context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	if path := os.Getenv("CHROME_PATH"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	return tab, func() { closeTab(); stop() }
}

// watchRows notes, in the page's own clock, when each row first stands in the document.
const watchRows = `
window.rowsSeen = {};
new MutationObserver(changes => {
	const now = performance.timeOrigin + performance.now();
	for (const change of changes) for (const node of change.addedNodes) {
		if (node.nodeType !== 1) continue;
		const rows = node.matches('article[id^=EVT]') ? [node] : node.querySelectorAll('article[id^=EVT]');
		for (const row of rows) window.rowsSeen[row.id] ??= now;
	}
}).observe(document.body, {childList: true, subtree: true});
null`

// open loads the game's page and returns when its first row is there: the feed is live then.
func open(tab context.Context, server *process, game feed.GameKey) error {
	if err := chromedp.Do(tab); err != nil {
		return fmt.Errorf("start a browser (CHROME_PATH may name one): %w", err)
	}
	bounded, cancel := context.WithTimeout(tab, latencyLimit)
	defer cancel()
	if err := untilAnswers(bounded, "http://"+server.listen+"/readyz"); err != nil {
		return err
	}
	if err := chromedp.Do(bounded,
		chromedp.Navigate("http://"+server.listen+"/"+game.String()),
		chromedp.WaitVisible(chromedp.CSS(`article[id^=EVT]`))); err != nil {
		return fmt.Errorf("open the page: %w", err)
	}
	_, err := chromedp.Run(bounded, chromedp.Evaluate[any](watchRows))
	return err
}

// rowsSeen waits until every row that was sent is in the page, and gives the moments.
func rowsSeen(tab context.Context, sent map[string]time.Time) (map[string]time.Time, error) {
	bounded, cancel := context.WithTimeout(tab, latencyLimit)
	defer cancel()
	want := latencyWarmup + len(sent)
	text, err := chromedp.Run(bounded, chromedp.Poll[string](fmt.Sprintf(
		`Object.keys(window.rowsSeen).length >= %d && JSON.stringify(window.rowsSeen)`, want)))
	if err != nil {
		return nil, fmt.Errorf("rows of %d entries: %w", want, err)
	}
	var ms map[string]float64
	if err := json.Unmarshal([]byte(text), &ms); err != nil {
		return nil, err
	}
	seen := make(map[string]time.Time, len(ms))
	for id, at := range ms {
		seen[id] = time.UnixMicro(int64(at * 1000))
	}
	for id := range sent {
		if _, ok := seen[id]; !ok {
			return nil, fmt.Errorf("%s was never a row", id)
		}
	}
	return seen, nil
}
