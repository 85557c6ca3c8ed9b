package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func TestMap(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/map", 1280, 900)
	p.wait("the map is drawn", "document.querySelectorAll('.map-chart .node').length >= 8")
	nodes := eval[[]string](p, "[...document.querySelectorAll('.node')].map(n => n.getAttribute('aria-label'))")
	all := strings.Join(nodes, "\n")
	for _, want := range []string{"gateway, ", "frontend, ", "payment, ", "redis 10.1.0.9:6379, not traced", "postgresql 10.1.0.12:5432, not traced"} {
		if !strings.Contains(all, want) {
			t.Errorf("no node %q among\n%s", want, all)
		}
	}
	edges := eval[[]string](p, "[...document.querySelectorAll('.edge')].map(e => e.getAttribute('aria-label'))")
	found := false
	for _, edge := range edges {
		found = found || strings.HasPrefix(edge, "frontend calls payment\n") && strings.Contains(edge, "errors") && strings.Contains(edge, "p99")
	}
	if !found {
		t.Errorf("no edge from frontend to payment with its numbers: %q", edges)
	}
	// What is called by a service that is not linked has a place, and a line of its own kind.
	if got := eval[string](p, "document.querySelector('.edge.unlinked')?.getAttribute('aria-label') ?? ''"); !strings.HasPrefix(got, "payment calls mail (not linked to its requests)\n") {
		t.Errorf("the line behind payment says %q", got)
	}
	// Errors are told by words, and not by colour alone.
	if got := eval[int](p, "[...document.querySelectorAll('.edge.bad, .edge.warn')].filter(e => !e.textContent.includes('error')).length"); got != 0 {
		t.Errorf("%d edges are coloured without a word", got)
	}

	// The same as a table, sorted by what is asked for.
	first := "document.querySelector('.sortable tbody tr').textContent"
	if got := eval[int](p, "document.querySelectorAll('.sortable')[0].querySelectorAll('tbody tr').length"); got != len(edges) {
		t.Errorf("%d rows for %d edges", got, len(edges))
	}
	p.click(".sortable thead th:nth-child(2) button")
	p.wait("it is sorted by the called", "document.querySelector('.sortable th:nth-child(2)').getAttribute('aria-sort') === 'ascending'")
	low := eval[string](p, first)
	p.click(".sortable thead th:nth-child(2) button")
	p.wait("it is sorted the other way", "document.querySelector('.sortable th:nth-child(2)').getAttribute('aria-sort') === 'descending' && "+first+" !== '"+low+"'")

	// From an edge to its traces.
	if got := eval[string](p, "[...document.querySelectorAll('.edge')].find(e => e.getAttribute('aria-label').startsWith('catalog calls redis')).href.baseVal"); !strings.Contains(got, "service=catalog") || !strings.Contains(got, "calls=redis") {
		t.Errorf("it leads to %s", got)
	}
	eval[bool](p, "([...document.querySelectorAll('.edge')].find(e => e.getAttribute('aria-label').startsWith('catalog calls redis')).dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true})), true)")
	p.wait("its traces are listed", "location.hash.startsWith('#/traces') && document.querySelectorAll('.trace-item').length === 50")
	if got := eval[string](p, "document.querySelector('input[name=calls]').value"); got != "redis 10.1.0.9:6379" {
		t.Errorf("the form asks for calls to %q", got)
	}
	p.do(chromedp.Navigate(base + "/#/map"))
	p.click(".operations summary")
	p.wait("operations are listed", "[...document.querySelectorAll('.operations tbody tr')].some(r => r.textContent.includes('POST /charge') && r.textContent.includes('server'))")

	p.do(chromedp.Navigate(base + "/#/map?last=15m"))
	p.wait("the time is as asked", "document.querySelector('select[name=last]')?.value === '15m'")
}

// A map with many services and cycles can still be drawn, and every edge be
// reached.
func TestLargeMap(t *testing.T) {
	td, edges := mesh(26, time.Now())
	p := open(t, mustServe(t, nil, td), "#/map", 1440, 900)
	p.wait("the map is drawn", "document.querySelectorAll('.map-chart .node').length === 26")
	if got := p.count(".map-chart .edge"); got != edges {
		t.Errorf("%d edges, want %d", got, edges)
	}
	if got := eval[string](p, "[...document.querySelectorAll('.edge-line')].filter(e => !/^M[-\\d. ]+([Cc][-\\d. ]+)+$/.test(e.getAttribute('d'))).map(e => e.getAttribute('d')).join()"); got != "" {
		t.Errorf("paths that are none: %s", got)
	}
	p.screenshot("map-large")
}

// modules runs code with the page's own modules.
func modules(t *testing.T) *tab {
	base, _ := shopServer(t)
	p := open(t, base, "", 800, 600)
	p.wait("the page is there", "document.querySelector('.trace-item')")
	return p
}

// Random graphs, cyclic ones too: nothing overlaps, callers come before callees
// unless a cycle forbids it.
func TestLayout(t *testing.T) {
	p := modules(t)
	got := eval[string](p, `(async () => {
		const {layout} = await import('/layout.js');
		let seed = 1;
		const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
		const sizes = {node: {along: 160, across: 50}, label: {along: 90, across: 30}, line: 10, gap: 10, between: 10};
		for (let round = 0; round < 300; round++) {
			const n = 1 + random(14), cyclic = round % 2 === 1, edges = [];
			const seen = new Set();
			for (let k = random(2 * n + 1); k > 0; k--) {
				let from = random(n), to = random(n);
				if (!cyclic && from >= to) continue;
				if (seen.has(from * 100 + to)) continue;
				seen.add(from * 100 + to);
				edges.push({from, to});
			}
			const placed = layout(n, edges, sizes);
			const fail = (what) => what + ' in round ' + round + ': ' + JSON.stringify({n, edges, placed});
			if (placed.nodes.length !== n || placed.edges.length !== edges.length) return fail('lost something');
			const boxes = placed.nodes.map((s) => ({...s, a: sizes.node.along, c: sizes.node.across}));
			for (const e of placed.edges) if (e.label) boxes.push({...e.label, a: sizes.label.along, c: sizes.label.across});
			for (const b of boxes) {
				if (!Number.isFinite(b.along) || !Number.isFinite(b.across)) return fail('no place');
				if (b.across - b.c / 2 < -0.01 || b.across + b.c / 2 > placed.across + 0.01 || b.along + b.a / 2 > placed.along + 0.01 || b.along - b.a / 2 < -0.01) return fail('out of the drawing');
			}
			for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
				const [x, y] = [boxes[i], boxes[j]];
				if (Math.abs(x.along - y.along) < (x.a + y.a) / 2 - 0.01 && Math.abs(x.across - y.across) < (x.c + y.c) / 2 - 0.01) return fail('two overlap');
			}
			for (const [k, e] of edges.entries()) {
				const {points, reversed, loop} = placed.edges[k];
				if (loop !== (e.from === e.to)) return fail('a loop');
				if (loop) continue;
				if (!cyclic && reversed) return fail('turned round without a cycle');
				const forward = placed.nodes[e.to].along > placed.nodes[e.from].along;
				if (forward === reversed) return fail('a wrong direction');
				if (points[0].along !== placed.nodes[e.from].along || points.at(-1).along !== placed.nodes[e.to].along) return fail('wrong ends');
			}
		}
		return 'ok';
	})()`)
	if got != "ok" {
		t.Error(got)
	}
}

func TestFormat(t *testing.T) {
	p := modules(t)
	got := eval[string](p, `(async () => {
		const f = await import('/format.js'), form = await import('/form.js'), route = await import('/route.js');
		const want = [
			[f.duration(0), '0 ns'], [f.duration(999), '999 ns'], [f.duration(1000), '1.00 µs'], [f.duration(12345), '12.3 µs'],
			[f.duration(999499), '999 µs'], [f.duration(999500), '1.00 ms'], [f.duration(1.5e9), '1.50 s'], [f.duration(59.94e9), '59.9 s'],
			[f.duration(185e9), '3 min 05 s'], [f.duration(3725e9), '1 h 02 min'], [f.duration(-1250000), '-1.25 ms'], [f.duration(null), '–'],
			[f.percent(0), '0%'], [f.percent(0.00001), '<0.01%'], [f.percent(0.0213), '2.13%'], [f.percent(0.125), '12.5%'], [f.percent(1), '100%'], [f.percent(0.99999), '>99.99%'], [f.percent(0.9996), '99.96%'],
			[f.rate(0), '0/s'], [f.rate(12.34), '12.3/s'], [f.rate(0.05), '3.00/min'], [f.rate(1e6), '1,000,000/s'], [f.rate(0.0005), '1.80/h'], [[0.05, 0.001].map(f.rateUnit([0.05, 0.001])).join(), '3.00/min,0.06/min'], [f.rateUnit([0])(0), '0/s'],
			[f.bytes(1023), '1,023 B'], [f.bytes(1536), '1.50 KiB'], [f.plural(1, 'span'), '1 span'], [f.plural(2, 'span'), '2 spans'],
			[f.ago(new Date(1000).toISOString(), 6000), '5 s ago'],
			[f.ticks(0, 100, 5).values.join(), '0,20,40,60,80,100'], [f.tick(1500000, 500000), '1.5 ms'],
			[form.goDuration('10'), '10ms'], [form.goDuration('1.5 s'), '1.5s'], [form.goDuration('1m30s'), '1m30s'], [form.goDuration('soon'), undefined], [form.goDuration(''), ''],
			[JSON.stringify(form.attributes('a=b c="d e" f=g=h bad')), '{"pairs":["a=b","c=d e","f=g=h"],"wrong":["bad"]}'],
			[form.quote('c=d "e"'), 'c="d \\"e\\""'], [JSON.stringify(form.attributes(form.quote('k=a "b" \\\\ c')).pairs), JSON.stringify(['k=a "b" \\\\ c'])],
			[form.traceID('4bf92f3577b34da6a3ce929d0e0e4736 '), '4bf92f3577b34da6a3ce929d0e0e4736'], [form.traceID('00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01'), '4bf92f3577b34da6a3ce929d0e0e4736'],
			[form.traceID('http://x/#/trace/4bf92f3577b34da6a3ce929d0e0e4736?span=00f067aa0ba902b7'), '4bf92f3577b34da6a3ce929d0e0e4736'], [form.traceID('4bf92f3577b34da6a3ce929d0e0e47360'), undefined],
			[route.href('traces', {service: 'a b&c', attr: ['x=1', 'y=#'], min: ''}), '#/traces?service=a+b%26c&attr=x%3D1&attr=y%3D%23'],
			[route.parse('#/trace/a%2Fb?x=1').parts.join('|'), 'trace|a/b'], [route.parse('#/trace/%zz').parts.join('|'), 'trace|%zz'],
		];
		return want.filter(([a, b]) => String(a).replaceAll('\u00a0', ' ') !== String(b)).map(([a, b]) => a + ' is not ' + b).join('\n');
	})()`)
	if got != "" {
		t.Error(got)
	}
}

// The tree against a plain recursive one, on random traces.
func TestTree(t *testing.T) {
	p := modules(t)
	got := eval[string](p, `(async () => {
		const {Tree} = await import('/tree.js');
		const {rects} = await import('/waterfall.js');
		let seed = 7;
		const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
		for (let round = 0; round < 300; round++) {
			const spans = [];
			let depth = 0;
			for (let k = 1 + random(30); k > 0; k--) {
				spans.push({depth, id: String(random(5)), name: 'n' + random(4), service: 0, start_ns: random(100), duration_ns: random(50), status: 'unset'});
				depth = Math.max(0, Math.min(depth + 1, depth + 1 - random(4)));
			}
			const tree = new Tree({spans, services: [{name: 's'}], duration_ns: 150, gaps: []});
			const fail = (what) => what + ' in round ' + round + ': ' + JSON.stringify(spans);
			spans.forEach((s, i) => {
				let p = i - 1;
				while (p >= 0 && spans[p].depth >= s.depth) p--;
				if (tree.parent[i] !== p) seed = fail('a parent');
			});
			if (typeof seed === 'string') return seed;
			const collapsed = spans.map((s, i) => tree.children[i] > 0 && random(3) === 0);
			collapsed.forEach((c, i) => c && tree.setCollapsed(i, true));
			const visible = spans.map((s, i) => i).filter((i) => {
				for (let p = tree.parent[i]; p >= 0; p = tree.parent[p]) if (collapsed[p]) return false;
				return true;
			});
			if (visible.join() !== [...tree.rows].join()) return fail('the rows');
			for (let i = 0; i < spans.length; i++) {
				const own = new Array(200).fill(0);
				for (let t = spans[i].start_ns; t < spans[i].start_ns + spans[i].duration_ns; t++) own[t] = 1;
				spans.forEach((c, j) => { if (tree.parent[j] === i) for (let t = c.start_ns; t < c.start_ns + c.duration_ns; t++) own[t] = 0; });
				const got = new Array(200).fill(0);
				const times = tree.selfTime(i);
				for (let k = 0; k < times.length; k += 2) for (let t = times[k]; t < times[k + 1]; t++) got[t] = 1;
				// Siblings come by start, as the API gives them; here they do not always.
				const sorted = spans.filter((c, j) => tree.parent[j] === i).every((c, k, all) => !k || all[k - 1].start_ns <= c.start_ns);
				if (sorted && own.join() !== got.join()) return fail('own time of ' + i);
			}
			const last = spans.length - 1;
			tree.reveal(last);
			if (tree.rowOf[last] < 0) return fail('revealing');
		}
		const many = Array.from({length: 200000}, (_, k) => k);
		const path = rects(many, (t) => t / 1000, 200, 0, 1);
		return path.length < 10000 ? 'ok' : 'a path of ' + path.length;
	})()`)
	if got != "ok" {
		t.Error(got)
	}
}

// A map without a span: what agents measured of all requests, marked as such.
func TestMapFromMetrics(t *testing.T) {
	base, s, end, err := serve(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if err := s.WriteMetrics(t.Context(), measuredShop(time.Now())); err != nil {
		t.Fatal(err)
	}
	p := open(t, base, "#/map", 1280, 900)
	p.wait("the map is drawn", "document.querySelectorAll('.map-chart .node').length === 4")
	edges := strings.Join(eval[[]string](p, "[...document.querySelectorAll('.edge.measured')].map(e => e.getAttribute('aria-label'))"), "\n")
	for _, want := range []string{"web calls stock (from metrics)\n", "stock calls redis 10.1.0.9:6379 (not traced, from metrics)\n", "stock calls 10.1.0.7:443 (not traced, from metrics)\n", "20.0% errors", "p95 "} {
		if !strings.Contains(edges, want) {
			t.Errorf("no line says %q among\n%s", want, edges)
		}
	}
	if got := p.count(".edge:not(.measured), .node:not(.measured)"); got != 0 {
		t.Errorf("%d parts are not marked as from metrics", got)
	}
	if got := eval[string](p, "document.querySelector('.map-body .note').textContent"); !strings.Contains(got, "from metrics of all requests") {
		t.Errorf("the note says %q", got)
	}
	if got := eval[string](p, "[...document.querySelectorAll('table')].map(t => t.textContent).join()"); !strings.Contains(got, "(from metrics)") {
		t.Errorf("the tables do not say it: %q", got)
	}
	p.screenshot("map-metrics")
}

// measuredShop is what an agent sends of a minute of a shop.
func measuredShop(end time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	list := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	add := func(name string, failed bool, fast, slow uint64, attributes map[string]any) {
		m := list.AppendEmpty()
		m.SetName(name)
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		point := h.DataPoints().AppendEmpty()
		point.SetStartTimestamp(pcommon.NewTimestampFromTime(end.Add(-time.Minute)))
		point.SetTimestamp(pcommon.NewTimestampFromTime(end))
		point.ExplicitBounds().FromRaw([]float64{0.001, 0.008, 0.012})
		point.BucketCounts().FromRaw([]uint64{fast, 0, slow, 0})
		if err := point.Attributes().FromRaw(attributes); err != nil {
			panic(err) // a type that pdata does not know: the fixture is wrong
		}
		point.Attributes().PutBool("error", failed)
	}
	const service, edge = "tare.service.request.duration", "tare.edge.request.duration"
	add(service, false, 5000, 1000, map[string]any{"service": "web", "protocol": "http"})
	add(service, false, 5500, 500, map[string]any{"service": "stock", "protocol": "http"})
	add(edge, false, 5500, 500, map[string]any{"client": "web", "peer": "stock", "peer_traced": true, "protocol": "http"})
	add(edge, false, 24000, 0, map[string]any{"client": "stock", "peer": "10.1.0.9:6379", "peer_traced": false, "protocol": "redis"})
	add(edge, false, 40, 40, map[string]any{"client": "stock", "peer": "10.1.0.7:443", "peer_traced": false, "protocol": "tls"})
	add(edge, true, 0, 20, map[string]any{"client": "stock", "peer": "10.1.0.7:443", "peer_traced": false, "protocol": "tls"})
	return md
}
