package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The heading and the heat map are of all that the search finds, not of what is listed.
func TestOverviewIsOfTheWholeSearch(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?last=6h", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50 && document.querySelector('.scatter .cell')")
	all := eval[int](p, "fetch('api/v1/overview?last=6h').then((r) => r.json()).then((a) => a.traces)")
	if all < shopTraces {
		t.Fatalf("%d traces", all)
	}
	if got := p.text(".result-count"); !strings.HasPrefix(got, fmt.Sprintf("%d traces", all)) || !strings.Contains(got, "50 newest listed") || !strings.Contains(got, "with errors") {
		t.Errorf("the heading is %q", got)
	}
	// The bars of numbers add up to them.
	if got := eval[int](p, `[...document.querySelectorAll('.scatter a.count')].reduce((n, a) => n + Number.parseInt(a.dataset.tip.replace(/[^0-9].*/s, '')), 0)`); got != all {
		t.Errorf("the bars are of %d traces, want %d", got, all)
	}
	// A column leads to its time.
	eval[bool](p, "(document.querySelector('.scatter a.count').dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true})), true)")
	p.wait("the time is narrower", `/start=\d+&end=\d+/.test(location.hash) && !location.hash.includes('last')`)
	p.wait("its traces are listed", "document.querySelectorAll('.trace-item').length > 0 && document.querySelectorAll('.trace-item').length < 50")
}

// Sorting is over the whole time, and with the limit it is in the address.
func TestSortAndLimit(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?last=6h&service=gateway", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50")
	choose := func(name, value string) {
		eval[bool](p, fmt.Sprintf("(s => { s.value = %q; return s.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('.bar-line select[name=%s]'))", value, name))
	}
	choose("sort", "duration")
	p.wait("the longest are listed", `location.hash.includes('sort=duration') && location.hash.includes('service=gateway') &&
		fetch('api/v1/traces?last=6h&service=gateway&sort=duration&limit=50').then((r) => r.json()).then((a) =>
			a.traces.every((t, i, all) => !i || all[i - 1].duration_ns >= t.duration_ns) &&
			[...document.querySelectorAll('.trace-link')].map((a) => a.hash).join() === a.traces.map((t) => '#/trace/' + t.trace_id).join())`)
	choose("limit", "20")
	p.wait("20 are listed", "location.hash.includes('limit=20') && document.querySelectorAll('.trace-item').length === 20")
	p.do(chromedp.Reload())
	p.wait("the form has them", "document.querySelector('select[name=sort]')?.value === 'duration' && document.querySelector('select[name=limit]').value === '20'")
	// The form keeps them.
	p.do(chromedp.SetValue(chromedp.CSS("select[name=status]"), "error"))
	p.click("form.search button[type=submit]")
	p.wait("failed ones, sorted", "location.hash.includes('status=error') && location.hash.includes('sort=duration') && location.hash.includes('limit=20')")
}

// Wild cards and comparisons, from the form to the server and back.
func TestConditionsInTheForm(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?last=6h&attr=a%3Db", 1280, 900)
	p.wait("nothing has this attribute", "document.querySelector('.message-title')")
	p.do(chromedp.Clear(chromedp.CSS("input[name=attr]")), chromedp.SendKeys(chromedp.CSS("input[name=attr]"), "url.path=/check* http.response.status_code>=200 http.response.status_code<500\r"))
	p.wait("check-outs are found", "document.querySelectorAll('.trace-item').length === 50 && [...document.querySelectorAll('.trace-op')].every((e) => e.textContent.includes('/checkout'))")
	if got := eval[string](p, "document.querySelector('input[name=attr]').value"); got != "url.path=/check* http.response.status_code>=200 http.response.status_code<500" {
		t.Errorf("the form has %q", got)
	}
	p.do(chromedp.Clear(chromedp.CSS("input[name=attr]")), chromedp.SendKeys(chromedp.CSS("input[name=attr]"), "a>b\r"))
	p.wait("what is no number is refused", "document.querySelector('.problem').textContent.includes('a>b')")
}

// From a trace back to the search, with its conditions and where it was scrolled.
func TestBackToTheSearch(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?last=6h&service=gateway&limit=100", 1280, 700)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 100")
	eval[bool](p, "(document.querySelectorAll('.trace-link')[60].scrollIntoView(), document.querySelectorAll('.trace-link')[60].click(), true)")
	p.wait("the trace is shown", "document.querySelector('.trace-head')")
	id := eval[string](p, "location.hash.slice('#/trace/'.length)")
	if got := p.text(".trace-id"); got != id {
		t.Errorf("the trace's id is shown as %q, want %q", got, id)
	}
	eval[bool](p, "(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)")
	p.click(".copy")
	p.wait("the id is copied", fmt.Sprintf("window.copied === %q", id))
	p.click(".back")
	p.wait("the search is back", "location.hash === '#/traces?last=6h&service=gateway&limit=100' && document.querySelectorAll('.trace-item').length === 100")
	p.wait("it is scrolled as it was", "scrollY > 500")
}

func TestSpansByService(t *testing.T) {
	base, special := shopServer(t)
	p := open(t, base, "#/trace/"+special["checkout"].String(), 1280, 900)
	p.wait("the trace is shown", "document.querySelectorAll('.row').length > 10")
	p.click(".pick-service[data-service=payment]")
	p.wait("only payment's spans are shown", "document.querySelectorAll('.row').length < 10 && [...document.querySelectorAll('.row b')].every((b) => b.textContent === 'payment')")
	p.click(".pick-service[data-service=catalog]")
	p.wait("catalog's too", "new Set([...document.querySelectorAll('.row b')].map((b) => b.textContent)).size === 2")

	p.do(chromedp.SendKeys(chromedp.CSS(".find-input"), "gateway\r"))
	p.wait("finding ends the filter", "document.querySelectorAll('.row').length > 10 && !document.querySelector('.pick-service[aria-pressed=true]')")
}

func TestCompare(t *testing.T) {
	base, special := shopServer(t)
	p := open(t, base, "#/traces?last=6h", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50")
	p.click(".trace-item:nth-child(2) .pick input")
	p.wait("another one is asked for", "document.querySelector('.compare-link').checkVisibility() && !document.querySelector('.compare-link').hasAttribute('href')")
	p.click(".trace-item:nth-child(4) .pick input")
	want := eval[string](p, "'#/compare?' + ['a', 'b'].map((k, i) => k + '=' + document.querySelectorAll('.trace-link')[2 * i + 1].hash.slice('#/trace/'.length)).join('&')")
	p.click(".compare-link[href]")
	p.wait("both are shown", "document.querySelectorAll('.pane').length === 2 && [...document.querySelectorAll('.pane')].every((p) => p.querySelector('.row'))")
	if got := eval[string](p, "location.hash"); got != want {
		t.Errorf("the address is %s, want %s", got, want)
	}
	// One of them without a payment, from the trace's own page.
	p.do(chromedp.Navigate(base + "/#/trace/" + special["checkout"].String()))
	p.wait("the trace is shown", "document.querySelector('.trace-head')")
	p.click(".toolbar a[href^='#/compare']")
	p.wait("the other is asked for", "document.querySelector('.compare-with input')")
	p.do(chromedp.SendKeys(chromedp.CSS(".compare-with input"), special["broken"].String()+"\r"))
	p.wait("both are shown", "document.querySelectorAll('.pane').length === 2 && document.querySelectorAll('table tbody tr').length > 3")
	// Times that operations took themselves add up to what the API says of each trace.
	got := eval[bool](p, `Promise.all(new URLSearchParams(location.hash.split('?')[1]).values().map((id) => fetch('api/v1/traces/' + id).then((r) => r.json())).toArray())
		.then(([a, b]) => document.querySelector('h1').textContent.startsWith('B took') === (a.duration_ns !== b.duration_ns) &&
			document.querySelectorAll('tbody tr').length === new Set([...a.spans.map((s) => [a.services[s.service].name, s.kind, s.name].join()), ...b.spans.map((s) => [b.services[s.service].name, s.kind, s.name].join())]).size)`)
	if !got {
		t.Errorf("the comparison says %q", p.text("main"))
	}
	p.screenshot("compare-checkout")
}

// A refresh that fails says so, and what is shown stays; the next one takes it back.
func TestFailedRefreshIsSaid(t *testing.T) {
	first, _ := shop(3, time.Now())
	base := mustServe(t, nil, first)
	p := open(t, base, "", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 8")
	eval[bool](p, "(window.real = fetch, window.fetch = async () => { throw new TypeError('gone'); }, true)")
	p.click(".bar-line .toggle")
	p.wait("it is said", "document.querySelector('main > .problem').textContent.includes('Refresh failed')")
	if n := p.count(".trace-item"); n != 8 {
		t.Errorf("%d traces are left", n)
	}
	eval[bool](p, "(window.fetch = window.real, true)")
	p.wait("it is taken back", "document.querySelector('main > .problem').textContent === ''")
	p.click(".bar-line .toggle")
}

// However long the name of a service is, its operation is seen: in the list, in the
// waterfall, in the heading.
func TestLongServiceNames(t *testing.T) {
	w := newWriter(3)
	w.trace(time.Now(), browse(1), nil, "")
	long := strings.Repeat("a-service-with-a-long-name-", 8)
	for _, rs := range w.td.ResourceSpans().All() {
		name, _ := rs.Resource().Attributes().Get("service.name")
		rs.Resource().Attributes().PutStr("service.name", long+name.Str())
	}
	base := mustServe(t, nil, w.td)
	for _, size := range sizes {
		p := open(t, base, "", size.width, size.height)
		seen := func(selector string) {
			t.Helper()
			p.wait(selector+" is seen", fmt.Sprintf(`(() => { const r = document.querySelector(%q)?.getBoundingClientRect();
				return r && r.width > 25 && r.left >= 0 && r.right <= innerWidth; })()`, selector))
		}
		seen(".trace-op")
		p.screenshot("long-list-" + size.name)
		p.do(chromedp.Navigate(base + "/" + eval[string](p, "document.querySelector('.trace-link').hash")))
		p.wait("the trace is shown", "document.querySelectorAll('.row').length > 4")
		seen(".trace-head .trace-op")
		seen(".row .op")
		p.screenshot("long-trace-" + size.name)
	}
}
