package page_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tare-trace/tare/span/semconv"
)

// slowCatalog is requests to the shop, in 3% of which catalog works 30 ms longer.
func slowCatalog(n int) *writer {
	w := newWriter(5)
	for k := range n {
		c := browse(math.Exp(0.2 * w.random.NormFloat64()))
		if k%33 == 0 {
			for x := &c; ; x = &x.calls[0] {
				if x.took += 30_000; x.service == "catalog" {
					break
				}
			}
		}
		w.trace(time.Now().Add(-time.Duration(k)*time.Second), c, map[string]any{semconv.TraceState: semconv.StateComplete}, "ot=th:e666")
	}
	return w
}

const diagnosed = "document.querySelectorAll('.diagnosis .operation').length > 5"

func TestDiagnose(t *testing.T) {
	base := mustServe(t, nil, slowCatalog(700).td)
	p := open(t, base, "#/traces?service=catalog&min=1ms&last=6h&attr=service.name%3Dcatalog", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50")
	p.click(".diagnose-link")
	p.wait("it is diagnosed", diagnosed)
	if got := p.text(".verdict-text"); !strings.HasPrefix(got, "catalog GET /products explains ") || !strings.Contains(got, "itself, not what it waits for") {
		t.Errorf("the verdict is %q", got)
	}
	first := p.text(".operation")
	for _, want := range []string{"catalog GET /products", "slow", "itself", "slow: "} {
		if !strings.Contains(first, want) {
			t.Errorf("the first row is %q", first)
		}
	}
	if got := p.text(".view-diagnose"); !strings.Contains(got, "700 traces of about 7,000 requests") || !strings.Contains(got, "only waits") ||
		!strings.Contains(got, "Shortest and longest are left out") || !strings.Contains(got, "sends no spans") {
		t.Errorf("the view is %q", got)
	}
	// The bar is as long as its share, and its interval surrounds the end.
	if !eval[bool](p, `(() => {
		const box = document.querySelector('.interval-bar').getBoundingClientRect();
		const fill = document.querySelector('.bar-fill').getBoundingClientRect(), line = document.querySelector('.bar-interval').getBoundingClientRect();
		const told = parseFloat(document.querySelector('.operation-share b').textContent) / 100;
		return Math.abs(fill.width / box.width - Math.min(1, told)) < 0.01 && line.left <= fill.right + 1 && line.right >= fill.right - 1;
	})()`) {
		t.Error("the first bar is not what it says")
	}

	// To a slow trace, and back.
	p.click(".operation .examples a")
	p.wait("the trace is shown", "document.querySelectorAll('.row:not([hidden])').length > 4")
	eval[bool](p, "(history.back(), true)")
	p.wait("the diagnosis is back", diagnosed)

	// Another share, in the address.
	p.do(chromedp.SetValue(chromedp.CSS(".bar-line select"), "0.01"))
	eval[bool](p, "document.querySelector('.bar-line select').dispatchEvent(new Event('change'))")
	p.wait("another share is diagnosed", "location.hash.includes('share=0.01') && document.querySelector('.diagnosis .note')?.textContent.includes('the slowest 1.0%')")

	// Back to the same search.
	p.click(".back")
	p.wait("the search is back", "document.querySelectorAll('.trace-item').length === 50")
	for name, want := range map[string]string{"min": "1ms", "last": "6h", "attr": "service.name=catalog"} {
		if got := eval[string](p, fmt.Sprintf("document.querySelector('[name=%s]').value", name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := eval[string](p, "location.hash"); strings.Contains(got, "share") {
		t.Errorf("the address is %s", got)
	}

	// Nothing matches.
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/#/diagnose?service=nobody"))
	p.wait("it says so", "document.querySelector('.message-title')?.textContent === 'No trace matches.'")
}

// What was found, at several widths, light and dark.
func TestDiagnoseLooks(t *testing.T) {
	base := mustServe(t, nil, slowCatalog(700).td)
	for _, size := range sizes {
		p := open(t, base, "#/diagnose?last=6h", size.width, size.height)
		for _, theme := range []string{"light", "dark"} {
			p.media(scheme(theme), &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
			p.wait("it is diagnosed", diagnosed)
			eval[bool](p, "(document.querySelector('.tails').open = true)")
			p.look(fmt.Sprintf("diagnosis-%s-%s", size.name, theme), size.width)
		}
	}
}
