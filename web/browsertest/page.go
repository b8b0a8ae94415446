package browsertest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait of a page. It is long, so that a busy machine fails nothing: a condition that comes true
// ends the wait at once.
const patience = 30 * time.Second

// Page is a tab with storage, cache and cookies of its own. Its methods fail the test that it belongs to.
type Page struct {
	Ctx context.Context // of the tab, for use with chromedp

	t    testing.TB
	read sync.WaitGroup // the reader of the console

	mu      sync.Mutex
	console []string // guarded by mu
	faults  []string // guarded by mu
}

// Tab opens a tab, closed when the test ends. By then nothing may have been thrown in it, nor any policy been broken.
func Tab(t testing.TB) *Page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(Browser(t), chromedp.WithNewBrowserContext())
	p := &Page{Ctx: ctx, t: t}
	messages := chromedp.Console(ctx)
	p.read.Go(func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			p.note(message)
		}
	})
	t.Cleanup(func() {
		err := chromedp.Cancel(ctx)
		cancel()
		p.read.Wait()
		if err != nil {
			t.Errorf("close the tab: %v", err)
		}
		for _, fault := range p.faults {
			t.Errorf("in the page: %s", fault)
		}
		if t.Failed() {
			t.Logf("console:\n%s", strings.Join(p.console, "\n"))
		}
	})
	return p
}

func (p *Page) note(message chromedp.ConsoleMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := message.String() + " " + message.URL
	p.console = append(p.console, text)
	if message.IsException() || strings.Contains(message.Text, "Content Security Policy") {
		p.faults = append(p.faults, text)
	}
}

// Open loads a page and waits until it is loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	if err := p.do(chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("open %s: %v", url, err)
	}
}

// Size sets the size of the tab in CSS pixels.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	if err := p.do(chromedp.EmulateViewport(width, height)); err != nil {
		p.t.Fatalf("size %d x %d: %v", width, height, err)
	}
}

// Before has a script run in each document that is opened from now on, before its own.
func (p *Page) Before(script string) {
	p.t.Helper()
	p.call("script for new documents", func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// NoScripts opens pages as a browser does whose user switched scripts off. What the test evaluates still runs.
func (p *Page) NoScripts() {
	p.t.Helper()
	p.call("switch scripts off", func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
}

// Prefers sets what the reader prefers of a media feature: Prefers("color-scheme", "dark").
func (p *Page) Prefers(feature, value string) {
	p.t.Helper()
	p.call("prefer "+value, func(ctx context.Context, t *chromedp.Target) error {
		features := []*emulation.MediaFeature{{Name: "prefers-" + feature, Value: value}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// Worked is how long the page's main thread has run, pauses and other processes' turns left out. It begins to count with
// the first call.
func (p *Page) Worked() time.Duration {
	p.t.Helper()
	var worked float64
	p.call("read what the page worked", func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
			return err
		}
		got, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		for _, metric := range got.Metrics {
			if metric.Name == "TaskDuration" {
				worked = metric.Value
			}
		}
		return err
	})
	return time.Duration(worked * float64(time.Second))
}

// Hover moves the pointer onto the middle of the element that a selector names.
func (p *Page) Hover(selector string) {
	p.t.Helper()
	at := Eval[[2]float64](p, `(({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2])(document.querySelector(`+strconv.Quote(selector)+`).getBoundingClientRect())`)
	p.call("hover over "+selector, func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]})
		return err
	})
}

// Type presses the keys of a text, or those of package kb.
func (p *Page) Type(keys string) {
	p.t.Helper()
	if err := p.do(chromedp.KeyEvent(keys)); err != nil {
		p.t.Fatalf("type %q: %v", keys, err)
	}
}

func (p *Page) call(what string, f func(context.Context, *chromedp.Target) error) {
	p.t.Helper()
	if err := p.do(chromedp.Func(f)); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Until waits until the JavaScript expression is true. One that throws is not true yet: what it looks for may be missing.
func (p *Page) Until(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.Ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool]("(() => { try { return Boolean("+expression+") } catch { return false } })()", chromedp.WithPollingTimeout(0), chromedp.WithPollingInterval(20*time.Millisecond)))
	if err != nil {
		p.t.Fatalf("wait until %s: %v\nthe page shows:\n%s", expression, err, p.text())
	}
}

// Do evaluates JavaScript whose value does not matter; a promise is waited for.
func (p *Page) Do(expression string) {
	p.t.Helper()
	Eval[any](p, "(async () => { "+expression+" })().then(() => null)")
}

// Eval is the value of a JavaScript expression; a promise is waited for.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.Ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v\nthe page shows:\n%s", expression, err, p.text())
	}
	return value
}

func (p *Page) do(steps ...chromedp.Action[chromedp.Void]) error {
	// The first run ties the tab to its context, so that one carries no deadline.
	if err := chromedp.Do(p.Ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.Ctx, patience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// text is what a reader would see, for messages of failed tests.
func (p *Page) text() string {
	ctx, cancel := context.WithTimeout(p.Ctx, 2*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 2000)`))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}
