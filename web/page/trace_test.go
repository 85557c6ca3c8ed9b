package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// rows counts what is visible of a waterfall by its height: only the rows in
// sight exist.
const rows = "Math.round(document.querySelector('.waterfall-content').offsetHeight / 26)"

func openTrace(t *testing.T, which string) *tab {
	t.Helper()
	base, special := shopServer(t)
	p := open(t, base, "#/trace/"+special[which].String(), 1280, 900)
	p.wait("the waterfall is drawn", "document.querySelectorAll('.row:not([hidden])').length > 0")
	return p
}

func TestTrace(t *testing.T) {
	p := openTrace(t, "checkout")
	if got := eval[int](p, rows); got != 19 {
		t.Errorf("%d rows, want one for each of 19 spans", got)
	}
	if got := p.text(".trace-head"); !strings.Contains(got, "POST /checkout") || !strings.Contains(got, "complete") || !strings.Contains(got, "2 errors") {
		t.Errorf("the head is %q", got)
	}
	row := func(text, what string) string {
		return fmt.Sprintf("[...document.querySelectorAll('.row')].find(r => r.textContent.includes(%q)).querySelector('.%s').getAttribute('d')", text, what)
	}
	// The root's own time is the two ends that its call does not cover.
	if got := eval[string](p, row("gateway POST", "bar-self")); strings.Count(got, "M") != 2 {
		t.Errorf("own time of the root is %q", got)
	}
	if got := eval[string](p, row("payment POST /charge", "bar-critical")); got == "" {
		t.Error("payment is not on the critical path")
	}
	// It ran beside a longer call.
	if got := eval[string](p, row("EXPIRE", "bar-critical")); strings.Count(got, "M") != 1 {
		t.Errorf("the critical path of EXPIRE is %q", got)
	}
	p.click(".toolbar .toggle")
	p.wait("the critical path is off", row("payment POST /charge", "bar-critical")+" === ''")
}

// A trace that ends where calls are not linked is neither complete nor broken, and says where, and why.
func TestTraceThatEnds(t *testing.T) {
	p := openTrace(t, "part")
	head := p.text(".trace-head")
	if !strings.Contains(head, "ends at payment: its calls are not linked") || strings.Contains(head, "complete") {
		t.Errorf("the head is %q", head)
	}
	said := eval[string](p, "[...document.querySelectorAll('.row')].find(r => r.textContent.includes('payment POST /charge') && r.textContent.includes('⊣'))?.querySelector('[data-tip*=\"Not linked\"]')?.dataset.tip ?? ''")
	if !strings.Contains(said, "receive requests while they work for others") {
		t.Errorf("the span's mark says %q", said)
	}
}

func TestTraceKeyboard(t *testing.T) {
	p := openTrace(t, "checkout")
	active := func() string {
		return eval[string](p, "document.getElementById(document.querySelector('.waterfall').getAttribute('aria-activedescendant'))?.getAttribute('aria-label') ?? ''")
	}
	p.wait("the tree has the focus", "document.activeElement.matches('[role=tree]')")
	p.key(kb.ArrowDown + kb.ArrowDown)
	p.wait("the third row is active", "document.querySelector('.row.active')?.getAttribute('aria-label')?.startsWith('frontend, POST /checkout')")
	if got := eval[string](p, "document.querySelector('.row.active').getAttribute('aria-level')"); got != "3" {
		t.Errorf("its level is %s", got)
	}
	p.key(kb.ArrowLeft)
	p.wait("what is below is hidden", rows+" === 3")
	if got := eval[string](p, "document.querySelector('.row.active').getAttribute('aria-expanded')"); got != "false" {
		t.Errorf("aria-expanded is %s", got)
	}
	p.key(kb.ArrowLeft)
	p.wait("the parent is active", "document.querySelector('.row.active')?.getAttribute('aria-level') === '2'")
	p.key(kb.ArrowDown + kb.ArrowRight)
	p.wait("all is shown again", rows+" === 19")
	p.key(kb.ArrowRight)
	p.wait("the first child is active", "document.querySelector('.row.active')?.getAttribute('aria-level') === '4'")
	p.key(kb.End)
	p.wait("the last row is active", "document.querySelector('.row.active')?.id === 'row-18'")
	if got := active(); !strings.HasPrefix(got, "ledger, INSERT, client") || !strings.Contains(got, "error") {
		t.Errorf("the last row is %q", got)
	}

	p.key(kb.Enter)
	p.wait("the details are shown", "document.querySelector('.details:not([hidden]) .attributes')?.textContent.includes('postgresql')")
	if got := p.text(".details"); !strings.Contains(got, "deadlock detected") {
		t.Errorf("the details are %q", got)
	}
	if got := eval[string](p, "location.hash"); !strings.Contains(got, "?span=") {
		t.Errorf("the address does not name the span: %s", got)
	}
	p.key(kb.Home)
	p.wait("the details follow", "document.querySelector('.details h2').textContent.includes('POST /checkout') && document.querySelector('.details').textContent.includes('192.0.2.17')")
	p.key(kb.Escape)
	p.wait("the details are closed", "document.querySelector('.details').hidden")

	p.key("?")
	p.wait("help is shown", "document.querySelector('dialog.help')?.open")
	p.key(kb.Escape)
	p.wait("help is gone", "!document.querySelector('dialog.help')")

	p.key("/")
	p.wait("find has the focus", "document.activeElement.matches('.find-input')")
	// The browser would not type a key that was handled; the driver does.
	eval[bool](p, "(document.activeElement.value = '', true)")
	p.key("redis")
	p.wait("attributes are found, too", "document.querySelector('.found').textContent.startsWith('4')")
	p.key(kb.Enter)
	p.wait("the first match is active", "document.querySelector('.row.active.match')")
}

func TestTraceLinkToSpan(t *testing.T) {
	p := openTrace(t, "checkout")
	p.key(kb.End + kb.Enter)
	p.wait("the details are shown", "document.querySelector('.details:not([hidden]) .attributes')")
	link := eval[string](p, "location.href")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	p.wait("they are shown again", "document.querySelector('.details:not([hidden]) .attributes')?.textContent.includes('postgresql')")
}

func TestIncompleteTraceIsMarked(t *testing.T) {
	p := openTrace(t, "broken")
	head := p.text(".trace-head")
	if !strings.Contains(head, "the parent of a span did not arrive") || !strings.Contains(head, "stands for 4.0 traces") {
		t.Errorf("the head is %q", head)
	}
	for _, want := range []string{"parent missing", "server missing", "late", "clock corrected", "linked by sequence"} {
		if got := p.text(".toolbar"); !strings.Contains(got, want) {
			t.Errorf("%q is not in the toolbar: %q", want, got)
		}
		if got := eval[int](p, fmt.Sprintf("[...document.querySelectorAll('.row:not([hidden])')].filter(r => r.getAttribute('aria-label').includes(%q)).length", want)); got == 0 {
			t.Errorf("no row is marked with %q", want)
		}
	}
	if got := eval[string](p, "[...document.querySelectorAll('.mark')].find(m => m.textContent === '⇄').dataset.tip"); !strings.Contains(got, "-1.25\u00a0ms") {
		t.Errorf("the corrected clock is explained as %q", got)
	}
	p = openTrace(t, "gap")
	if p.count(".ruler .gap") != 1 || p.count(".backdrop .gap") != 1 {
		t.Error("the gap between the two spans is not marked")
	}
	if got := eval[string](p, "document.querySelector('.ruler .gap').dataset.tip"); !strings.Contains(got, "5.00\u00a0ms") {
		t.Errorf("the gap is explained as %q", got)
	}
}

func TestZoom(t *testing.T) {
	p := openTrace(t, "checkout")
	p.wait("the map is drawn", "document.querySelector('.minimap canvas').width > 300")
	box := eval[[]float64](p, "(r => [r.left, r.top, r.width, r.height])(document.querySelector('.minimap').getBoundingClientRect())")
	at := func(share float64) (float64, float64) { return box[0] + box[2]*share, box[1] + box[3]/2 }
	x1, y := at(0.25)
	x2, _ := at(0.75)
	p.do(chromedp.MouseEvent("mousePressed", x1, y, chromedp.Button("left")), chromedp.MouseEvent("mouseMoved", x2, y, chromedp.Button("left")),
		chromedp.MouseEvent("mouseReleased", x2, y, chromedp.Button("left")))
	p.wait("the middle is shown", "/^5\\.8\\d.ms – 17\\.\\d.ms$/.test(document.querySelector('.minimap-range').textContent)")
	p.key("0")
	p.wait("all is shown", "document.querySelector('.minimap-range').textContent === ''")
	p.key("+")
	p.wait("it is zoomed", "document.querySelector('.minimap.zoomed')")
}

// The names may be made wider, with keys too, and stay so.
func TestSplitter(t *testing.T) {
	p := openTrace(t, "checkout")
	width := "Math.round(document.querySelector('.row .names').getBoundingClientRect().width)"
	was := eval[int](p, width)
	eval[bool](p, "(document.querySelector('.splitter').focus(), true)")
	p.key(kb.ArrowRight + kb.ArrowRight)
	p.wait("the names are wider", fmt.Sprintf("%s > %d", width, was+20))
	now := eval[int](p, width)
	p.do(chromedp.Reload())
	p.wait("they are so after a reload", fmt.Sprintf("document.querySelector('.row .names') && %s === %d", width, now))
}

func TestDownload(t *testing.T) {
	p := openTrace(t, "checkout")
	got := eval[string](p, "fetch(document.querySelector('a[download]').href).then(r => r.json()).then(j => Object.keys(j).join())")
	if got != "resourceSpans" {
		t.Errorf("the download has %s", got)
	}
}

func TestHeavyTraceOnThePage(t *testing.T) {
	const spans = 100_000
	td, id := large(spans, time.Now())
	if td.SpanCount() != spans {
		t.Fatalf("the fixture has %d spans", td.SpanCount())
	}
	p := open(t, mustServe(t, nil, td), "#/trace/"+id.String(), 1280, 900)
	p.wait("it is shown", "document.querySelectorAll('.row:not([hidden])').length > 10")
	if got := eval[int](p, rows); got != spans {
		t.Errorf("%d rows", got)
	}
	if got := p.count(".row"); got > 100 {
		t.Errorf("%d rows exist at once: they are to be used again", got)
	}
	t.Logf("100,000 spans: %s", eval[string](p, `(async () => {
		const {Tree} = await import('/tree.js');
		const took = {};
		const timed = async (name, f) => { const t = performance.now(); const v = await f(); took[name] = Math.round(performance.now() - t); return v; };
		const trace = await timed('read', () => fetch('api/v1/traces/`+id.String()+`?attributes=false').then((r) => r.json()));
		const tree = await timed('tree', () => new Tree(trace));
		await timed('find', () => tree.find('catalog 7'));
		const box = document.querySelector('.waterfall');
		const frame = () => new Promise(requestAnimationFrame);
		await timed('100 frames of scrolling by 100 px', async () => { for (let k = 0; k < 100; k++) { box.scrollTop += 100; await frame(); } });
		await timed('100 frames of scrolling by 5000 px', async () => { for (let k = 0; k < 100; k++) { box.scrollTop += 5000; await frame(); } });
		return JSON.stringify(took) + ' ms';
	})()`))
	eval[bool](p, "(document.querySelector('.waterfall').scrollTop = 1e9, true)")
	p.wait("the last rows are drawn", "document.querySelector('#row-99999')")
	if got := p.count(".row"); got > 100 {
		t.Errorf("%d rows exist after scrolling", got)
	}
	p.key(kb.Home + "n")
	p.wait("an error is active", "document.querySelector('.row.active.failed')")
	p.key(kb.Enter)
	p.wait("its details are read on demand", "document.querySelector('.details:not([hidden]) .attributes')?.textContent.includes('service.name')")
	eval[bool](p, "([...document.querySelectorAll('.toggle')].find(b => b.textContent === 'Collapse').click(), true)")
	p.wait("two levels are left", rows+" === 11")
	if got := eval[float64](p, "performance.getEntriesByType('resource').filter(e => e.name.includes('/api/v1/traces/') && !e.name.includes('attributes=false') && !e.name.includes('/spans/')).length"); got != 0 {
		t.Error("all attributes of a huge trace were asked for")
	}
}

// hiddenText is what the page shows, in text, labels, tooltips or its title, with characters that nobody sees or that
// change the order of others.
const hiddenText = `(() => {
	const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/u;
	const shown = [document.title];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) shown.push(texts.currentNode.data);
	for (const e of document.querySelectorAll('[title], [aria-label], option[label]')) shown.push(e.title, e.getAttribute('aria-label') ?? '', e.label ?? '');
	for (const e of document.querySelectorAll('[data-tip]')) {
		e.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));
		shown.push(document.getElementById('tip').textContent);
	}
	return shown.find((s) => hidden.test(s)) ?? '';
})()`

func TestHostileNames(t *testing.T) {
	td, id := hostile(time.Now())
	p := open(t, mustServe(t, nil, td), "#/traces?last=168h", 1280, 900)
	hacked := func(where string) {
		t.Helper()
		if eval[bool](p, "'hacked' in window || document.querySelector('main script, main img, body > img, main svg[onload], title ~ svg') !== null || Object.prototype.k !== undefined") {
			t.Errorf("%s: a name became more than text", where)
		}
		if found := eval[string](p, hiddenText); found != "" {
			t.Errorf("%s: shown as it is: %q", where, found)
		}
	}
	p.wait("it is listed", "document.querySelector('.trace-item')")
	if got := p.text(".trace-item"); !strings.Contains(got, hostileNames[0]) {
		t.Errorf("the name is not shown as it is: %q", got)
	}
	hacked("list")
	p.do(chromedp.Navigate(p.base + "/#/trace/" + id.String()))
	p.wait("it is shown", "document.querySelectorAll('.row:not([hidden])').length >= 10")
	hacked("trace")
	for _, want := range []string{`a\u202egnp.exe`, `\u001b[31mred\u009b2J`, `ad\u200bmin\u2066\ufeff`, "tag\\udb40\\udc41 \U0001f600\ufe0f"} {
		if got := p.text("main"); !strings.Contains(got, want) {
			t.Errorf("%s is not shown", want)
		}
	}
	for range hostileNames {
		p.key(kb.ArrowDown + kb.Enter)
		p.wait("the details are read", "document.querySelector('.details:not([hidden]) .attributes')")
		hacked("details")
	}
	p.do(chromedp.Navigate(p.base + "/#/map?last=168h"))
	p.wait("the map is drawn", "document.querySelectorAll('.map-chart .node').length >= 10")
	hacked("map")
	for _, view := range []string{"#/trace/%zz", "#/traces?service=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&last=%22%3E", "#/__proto__", "#/constructor/x"} {
		p.expected = func(problem string) bool { return strings.Contains(problem, "400") || strings.Contains(problem, "404") }
		p.do(chromedp.Navigate(p.base + "/" + view))
		p.wait("it answers "+view, "document.querySelector('.message')")
		hacked(view)
	}
}
