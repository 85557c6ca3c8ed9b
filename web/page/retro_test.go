package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/semconv"
)

// Traces that were kept retroactively are listed with the reason, found by it, and shown with it.
func TestRetro(t *testing.T) {
	now := time.Now()
	td, _ := shop(20, now)
	w := newWriter(12)
	ids := map[string]pcommon.TraceID{}
	for i, reason := range []string{"error", "slow", "no_response"} {
		c := checkout(1)
		c.find("payment", server).attributes[semconv.RetroReason] = reason
		facts := map[string]any{semconv.TraceState: semconv.StateComplete, semconv.KeepReason: "retro"}
		ids[reason] = w.trace(now.Add(-time.Duration(i+1)*time.Second), c, facts, "")
	}
	for _, rs := range w.td.ResourceSpans().All() {
		for _, s := range rs.ScopeSpans().At(0).Spans().All() {
			s.Attributes().PutBool(semconv.Retro, true)
		}
	}
	p := open(t, mustServe(t, nil, td, w.td), "#/traces?last=6h", 1280, 900)
	p.wait("all are listed", "document.querySelectorAll('.trace-item').length === 28")
	if n := p.count(".badge.retro"); n != 3 {
		t.Errorf("%d badges", n)
	}
	if got := p.text(".trace-list"); !strings.Contains(got, "retro: a request had no response") || strings.Contains(got, "kept: the agent") {
		t.Errorf("they are listed as %q", got)
	}

	p.click("details.more summary")
	p.do(chromedp.SetValue(chromedp.CSS("select[name=retro]"), "any"), chromedp.SetValue(chromedp.CSS("select[name=service]"), "gateway"))
	p.click("form.search button[type=submit]")
	p.wait("only those that were kept are left", "document.querySelectorAll('.trace-item').length === 3")
	p.screenshot("retro")
	p.wait("the form says so after a search", "document.querySelector('select[name=retro]').value === 'any' && document.querySelector('details.more').open")
	p.do(chromedp.SetValue(chromedp.CSS("select[name=retro]"), "slow"))
	p.click("form.search button[type=submit]")
	p.wait("the slow one is found", "location.hash.includes('retro=slow') && document.querySelectorAll('.trace-item').length === 1")
	if got, want := eval[string](p, "document.querySelector('.trace-link').hash"), "#/trace/"+ids["slow"].String(); got != want {
		t.Errorf("found %s, want %s", got, want)
	}

	p.click(".trace-link")
	p.wait("the trace is shown", "document.querySelector('.trace-head')")
	if got := p.text(".trace-head"); !strings.Contains(got, "retro: it was slow") || strings.Contains(got, "stands for") || strings.Contains(got, "kept:") {
		t.Errorf("the trace is shown as %q", got)
	}

	p.do(chromedp.Navigate(p.base + "/#/diagnose?last=6h&retro=any"))
	p.wait("why there is no diagnosis is said", "document.querySelector('.message-title')?.textContent === 'All traces were kept retroactively.'")
	if got := p.text("main"); !strings.Contains(got, "3 traces left out that were kept retroactively") {
		t.Errorf("it says %q", got)
	}
}
