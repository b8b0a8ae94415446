// Package browsertest drives pages in a real Chromium: one browser for all tests that run at a time, a tab of its own
// for each.
//
//	page := browsertest.Tab(t)
//	page.Open(server.URL + "/acme/g1")
//	page.Until(`document.querySelectorAll("article.line").length === 20`)
//	text := browsertest.Eval[string](page, `document.querySelector("article.line .text").textContent`)
//
// A page that throws, or that breaks the Content-Security-Policy it was served with, fails its test.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// shared is the browser of the test binary. It lives as long as one of its users, so nothing of it is left when the
// tests have ended; ask for it in a parent test to keep it over all its subtests.
var shared struct {
	sync.Mutex
	users int
	ctx   context.Context
	stop  func() error
}

// Browser is the context of the shared browser, for use with chromedp. It is started for the first test that asks and
// stopped after the last.
func Browser(t testing.TB) context.Context {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	shared.users++
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			if err := shared.stop(); err != nil {
				t.Errorf("stop the browser: %v", err)
			}
		}
	})
	return shared.ctx
}

// start is called with shared locked.
func start() error {
	path, err := find()
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.WindowSize(1280, 800),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to sandbox for root
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		release()
		return fmt.Errorf("start %s: %w", path, err)
	}
	shared.ctx = ctx
	shared.stop = func() error {
		limit, done := context.WithTimeout(ctx, 20*time.Second)
		defer done()
		err := chromedp.Cancel(limit)
		cancel()
		release()
		return err
	}
	return nil
}

var errNoBrowser = errors.New("no browser found: run scripts/setup test (Debian, Ubuntu), or install Chromium and set CHROME_PATH")

func find() (string, error) {
	if path := os.Getenv("CHROME_PATH"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("CHROME_PATH: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}
