package page_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/chromedp/cdproto/cdp"
)

// browser is one Chromium for all tests; each test has a tab and its own
// storage.
var browser = struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}{end: func() {}}

func startBrowser(path string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	browser.ctx, browser.err = ctx, chromedp.Do(ctx)
	browser.end = func() {
		end()
		endAllocator()
	}
}

// tab is a page under test. What goes wrong in it fails the test at its end:
// errors on the console, refused by the Content-Security-Policy, requests to
// another host.
type tab struct {
	*testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
	expected func(problem string) bool
}

// open makes a tab and shows a view of the page that base serves.
func open(t *testing.T, base, view string, width, height int64) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is not in PATH: install Debian's chromium")
		}
		t.Skip("chromium is not in PATH: the page is tested in a real browser only")
	}
	browser.once.Do(func() { startBrowser(path) })
	if browser.err != nil {
		t.Fatalf("starting %s: %v", path, browser.err)
	}
	p := &tab{T: t, base: base}
	own, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(ev any) { p.watch(own.Host, ev) }))
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context, and not as the deadline's
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(stop)
	p.ctx = ctx
	p.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		return err
	}), chromedp.EmulateViewport(width, height), chromedp.Navigate(base+"/"+view))
	t.Cleanup(func() {
		p.networkChanged()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			if p.expected == nil || !p.expected(problem) {
				t.Error(problem)
			}
		}
	})
	return p
}

func (p *tab) watch(own string, ev any) {
	note := func(format string, args ...any) {
		p.mu.Lock()
		p.problems = append(p.problems, fmt.Sprintf(format, args...))
		p.mu.Unlock()
	}
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(ev.Request.URL)
		if err != nil || u.Host != own && u.Host != "" {
			note("a request to another host: %s", ev.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		note("an exception: %s %v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "warning" {
			note("on the console: %s %v", ev.Type, ev.Args)
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == "error" || ev.Entry.Level == "warning" {
			note("in the log: %s %s", ev.Entry.Text, ev.Entry.URL)
		}
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// eval evaluates an expression in the page, a promise to its value.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true. chromedp's own way compiles code in
// the page, which its Content-Security-Policy forbids.
func (p *tab) wait(what, expression string) {
	p.Helper()
	deadline := time.Now().Add(time.Minute)
	for !eval[bool](p, "Boolean("+expression+")") {
		if p.networkChanged() {
			p.do(chromedp.Reload())
		}
		if time.Now().After(deadline) {
			p.Fatalf("waited in vain until %s (%s); the page says:\n%s", what, expression, p.text("main"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// networkChanged reports whether Chromium gave requests up since it was last
// asked, as it does, those to loopback too, whenever an interface of the host
// comes or goes: other tests make network namespaces meanwhile.
func (p *tab) networkChanged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.problems)
	p.problems = slices.DeleteFunc(p.problems, func(s string) bool { return strings.Contains(s, "net::ERR_NETWORK_CHANGED") })
	return len(p.problems) < n
}

// text is what an element shows, with plain spaces. It looks after the second
// frame from now: an item with content-visibility shows nothing before it was
// drawn once.
func (p *tab) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
		done(document.querySelector(%q)?.innerText.replaceAll('\u00a0', ' ') ?? ''))))`, selector))
}

func (p *tab) click(selector string) {
	p.Helper()
	p.wait(selector+" is there", fmt.Sprintf("document.querySelector(%q)", selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

func (p *tab) count(selector string) int {
	p.Helper()
	return eval[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

func (p *tab) key(keys string) {
	p.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// media sets what the page is told of the reader's wishes.
func (p *tab) media(features ...*emulation.MediaFeature) {
	p.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	}))
}

func scheme(name string) *emulation.MediaFeature {
	return &emulation.MediaFeature{Name: "prefers-color-scheme", Value: name}
}

// screenshot writes out/screenshots/name.png for people to look at; git
// ignores /out.
func (p *tab) screenshot(name string) {
	p.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	dir := filepath.Join("..", "..", "out", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}
