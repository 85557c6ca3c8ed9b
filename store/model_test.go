package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// modelSpan is a span as the model knows it.
type modelSpan struct {
	trace      pcommon.TraceID
	id, parent uint64
	service    string
	name       string
	kind       int32
	start, end uint64
	failed     bool
	state      string
	attributes map[string]string
}

func (s *modelSpan) duration() uint64 {
	if s.end < s.start {
		return 0
	}
	return s.end - s.start
}

// model is a store that is simple enough to be right.
type model struct {
	r      *rand.Rand
	chunks map[*zone][]*modelSpan
	stated map[pcommon.TraceID]bool
	nextID uint64
}

var (
	modelServices = []string{"a", "b", "c", UnknownService}
	modelNames    = []string{"GET", "POST", "", "SELECT"}
	modelKeys     = []string{"k", "http.status", "x.y"}
	modelValues   = []string{"200", "true", "", "1.5", "-7", "aGk=", `["p",1]`, `{"q":2}`, "NaN", "Infinity", "text", "1e+21"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// putValue gives the attribute a value of some type whose text is v.
func putValue(r *rand.Rand, m pcommon.Map, key, v string) {
	val := m.PutEmpty(key)
	var ways []func()
	add := func(f func()) { ways = append(ways, f) }
	add(func() { val.SetStr(v) })
	switch v {
	case "200", "-7":
		add(func() { val.SetInt(map[string]int64{"200": 200, "-7": -7}[v]) })
		add(func() { val.SetDouble(map[string]float64{"200": 200, "-7": -7}[v]) })
	case "true":
		add(func() { val.SetBool(true) })
	case "":
		add(func() {})
		add(func() { val.SetEmptyBytes() })
	case "1.5":
		add(func() { val.SetDouble(1.5) })
	case "1e+21":
		add(func() { val.SetDouble(1e21) })
	case "aGk=":
		add(func() { val.SetEmptyBytes().FromRaw([]byte("hi")) })
	case `["p",1]`:
		add(func() { s := val.SetEmptySlice(); s.AppendEmpty().SetStr("p"); s.AppendEmpty().SetInt(1) })
	case `{"q":2}`:
		add(func() { val.SetEmptyMap().PutInt("q", 2) })
	case "NaN":
		add(func() { val.SetDouble(math.NaN()) })
	case "Infinity":
		add(func() { val.SetDouble(math.Inf(1)) })
	}
	pick(r, ways)()
}

// batch makes the spans of one write, of new traces and of earlier ones.
func (m *model) batch() (ptrace.Traces, []*modelSpan) {
	r := m.r
	td := ptrace.NewTraces()
	var spans []*modelSpan
	for range 1 + r.IntN(8) {
		service := pick(r, modelServices)
		rs := td.ResourceSpans().AppendEmpty()
		resource := map[string]string{}
		if service != UnknownService {
			rs.Resource().Attributes().PutStr("service.name", service)
			resource["service.name"] = service
		}
		if r.IntN(2) == 0 {
			k, v := pick(r, modelKeys), pick(r, modelValues)
			putValue(r, rs.Resource().Attributes(), k, v)
			resource[k] = v
		}
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(pick(r, []string{"", "s1", "s2"}))
		for range r.IntN(6) {
			m.nextID++
			s := &modelSpan{
				trace: traceID(uint64(1 + r.IntN(40))), id: m.nextID, service: service, name: pick(r, modelNames),
				kind: int32(r.IntN(6)), start: hour0 + uint64(r.IntN(50))*1_000_000, failed: r.IntN(4) == 0,
				attributes: maps.Clone(resource),
			}
			switch r.IntN(10) {
			case 0:
				s.start = uint64(r.IntN(2)) // no clock
			case 1:
				s.start = 1<<63 + uint64(r.IntN(3)) // wrong clock
			}
			s.end = s.start + uint64(r.IntN(100))*100_000
			if r.IntN(10) == 0 {
				s.end = s.start - 1
			}
			if r.IntN(3) > 0 {
				s.parent = m.nextID - 1
			}
			p := ss.Spans().AppendEmpty()
			p.SetTraceID(s.trace)
			p.SetSpanID(spanIDOf(s.id))
			if s.parent > 0 {
				p.SetParentSpanID(spanIDOf(s.parent))
			}
			p.SetName(s.name)
			p.SetKind(ptrace.SpanKind(s.kind))
			p.SetStartTimestamp(pcommon.Timestamp(s.start))
			p.SetEndTimestamp(pcommon.Timestamp(s.end))
			if s.failed {
				p.Status().SetCode(ptrace.StatusCodeError)
			}
			for range r.IntN(3) {
				k, v := pick(r, modelKeys), pick(r, modelValues)
				if _, there := s.attributes[k]; there {
					continue // one value for a key, or the model would have to be a set
				}
				putValue(r, p.Attributes(), k, v)
				s.attributes[k] = v
			}
			if r.IntN(8) == 0 && !m.stated[s.trace] {
				m.stated[s.trace] = true
				s.state = pick(r, []string{semconv.StateComplete, semconv.StateIncomplete})
				p.Attributes().PutStr(semconv.TraceState, s.state)
				s.attributes[semconv.TraceState] = s.state
			}
			spans = append(spans, s)
		}
	}
	return td, spans
}

func (m *model) byTrace() map[pcommon.TraceID][]*modelSpan {
	all := map[pcommon.TraceID][]*modelSpan{}
	for _, spans := range m.chunks {
		for _, s := range spans {
			all[s.trace] = append(all[s.trace], s)
		}
	}
	return all
}

func (m *model) query() Query {
	r := m.r
	var q Query
	if r.IntN(3) == 0 {
		q.Service = pick(r, append([]string{"none"}, modelServices...))
	}
	if r.IntN(3) == 0 {
		q.Operation = pick(r, modelNames)
	}
	if r.IntN(4) == 0 {
		q.Kind = int32(r.IntN(6))
	}
	if r.IntN(4) == 0 {
		q.MinDuration = time.Duration(r.IntN(10_000_000))
	}
	if r.IntN(4) == 0 {
		q.MaxDuration = time.Duration(r.IntN(10_000_000))
	}
	q.Status = Status(r.IntN(6))
	if q.Status > NotFailed {
		q.Status = AnyStatus
	}
	if r.IntN(4) == 0 {
		q.State = pick(r, []string{semconv.StateComplete, semconv.StateIncomplete, "strange"})
	}
	if r.IntN(3) == 0 {
		q.Start = timeOf(hour0 + uint64(r.IntN(50))*1_000_000)
	}
	if r.IntN(3) == 0 {
		q.End = timeOf(hour0 + uint64(r.IntN(50))*1_000_000)
	}
	if r.IntN(3) == 0 {
		q.Attributes = map[string]string{pick(r, modelKeys): pick(r, modelValues)}
		if r.IntN(2) == 0 {
			q.Attributes[pick(r, modelKeys)] = pick(r, modelValues)
		}
	}
	q.Roots = r.IntN(5) == 0
	q.Limit = 1 + r.IntN(12)
	return q
}

func (s *modelSpan) matches(q Query) bool {
	for k, v := range q.Attributes {
		if got, ok := s.attributes[k]; !ok || got != v {
			return false
		}
	}
	return (q.Service == "" || q.Service == s.service) &&
		(q.Operation == "" || q.Operation == s.name) &&
		(q.Kind == 0 || q.Kind == s.kind) &&
		(q.MinDuration == 0 || s.duration() >= uint64(q.MinDuration)) &&
		(q.MaxDuration == 0 || s.duration() <= uint64(q.MaxDuration)) &&
		(q.Status == AnyStatus || (q.Status == Failed) == s.failed) &&
		(q.Start.IsZero() || s.start >= uint64(q.Start.UnixNano())) &&
		(q.End.IsZero() || s.start < uint64(q.End.UnixNano())) &&
		(!q.Roots || s.parent == 0)
}

// search is what Search must answer, all pages together.
func (m *model) search(q Query) []Summary {
	var found []Summary
	var from []uint64
	for id, spans := range m.byTrace() {
		sum := summaryOf(id, spans)
		if q.State != "" && sum.State != q.State || !slices.ContainsFunc(spans, func(s *modelSpan) bool { return s.matches(q) }) {
			continue
		}
		found = append(found, sum)
		from = append(from, minStart(spans))
	}
	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(from[b], from[a]), bytes.Compare(found[b].TraceID[:], found[a].TraceID[:]))
	})
	sorted := make([]Summary, 0, len(found))
	for _, i := range order {
		sorted = append(sorted, found[i])
	}
	return sorted
}

func minStart(spans []*modelSpan) uint64 {
	from := spans[0].start
	for _, s := range spans {
		from = min(from, s.start)
	}
	return from
}

func summaryOf(id pcommon.TraceID, spans []*modelSpan) Summary {
	sum := Summary{TraceID: id, Spans: len(spans), Weight: 1}
	from := minStart(spans)
	end := uint64(0)
	counts := map[string]*ServiceCount{}
	for _, s := range spans {
		end = max(end, s.start+s.duration())
		if counts[s.service] == nil {
			counts[s.service] = &ServiceCount{Name: s.service}
		}
		counts[s.service].Spans++
		if s.failed {
			counts[s.service].Errors++
			sum.Errors++
		}
		if s.state != "" {
			sum.State = s.state
		}
	}
	sum.Start, sum.Duration = timeOf(from), durationOf(end-from)
	for _, c := range counts {
		sum.Services = append(sum.Services, *c)
	}
	slices.SortFunc(sum.Services, func(a, b ServiceCount) int {
		return cmp.Or(cmp.Compare(b.Spans, a.Spans), strings.Compare(a.Name, b.Name))
	})
	return sum
}

// isTop reports whether a span with this name and service may be the top span:
// which of several equal ones it is, is nobody's business.
func isTop(spans []*modelSpan, name, service string) bool {
	best := slices.MinFunc(spans, func(a, b *modelSpan) int {
		if (a.parent == 0) != (b.parent == 0) {
			if a.parent == 0 {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.start, b.start)
	})
	return slices.ContainsFunc(spans, func(s *modelSpan) bool {
		return s.name == name && s.service == service && s.start == best.start && (s.parent == 0) == (best.parent == 0)
	})
}

// follow moves the spans of chunks that are gone into the one that is new, or
// forgets them if there is none.
func (m *model) follow(s *Store, added []*modelSpan) {
	var gone []*modelSpan
	list := s.list()
	for z, spans := range m.chunks {
		if !slices.Contains(list, z) {
			gone = append(gone, spans...)
			delete(m.chunks, z)
		}
	}
	for _, z := range list {
		if m.chunks[z] == nil {
			m.chunks[z] = append(gone, added...)
		}
	}
}

func (m *model) check(t *testing.T, s *Store, q Query) {
	t.Helper()
	want := m.search(q)
	traces := m.byTrace()
	var got []Summary
	for pages := 0; ; pages++ {
		r, err := s.Search(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Truncated && r.Next != "" && len(r.Traces) != q.Limit {
			t.Fatalf("%+v: a page of %d, and another one", q, len(r.Traces))
		}
		got = append(got, r.Traces...)
		if q.After = r.Next; q.After == "" {
			break
		}
		if pages > 1000 {
			t.Fatal("pages without end")
		}
	}
	for i := range got {
		if !isTop(traces[got[i].TraceID], got[i].Root, got[i].Service) {
			t.Fatalf("top span of %v: %q of %q", got[i].TraceID, got[i].Root, got[i].Service)
		}
		got[i].Root, got[i].Service = "", ""
	}
	if !slices.EqualFunc(got, want, func(a, b Summary) bool { return reflect.DeepEqual(a, b) }) {
		q.After = ""
		t.Fatalf("%+v:\ngot  %s\nwant %s", q, lines(got), lines(want))
	}
}

func lines(list []Summary) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "\n%+v", s)
	}
	return b.String()
}

func TestHeavySearchIsWhatTheModelFinds(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &model{r: rand.New(rand.NewPCG(seed, 3)), chunks: map[*zone][]*modelSpan{}, stated: map[pcommon.TraceID]bool{}}
			s := open(t, Options{NoSync: true, byHand: true})
			merges := 0
			for step := range 90 {
				td, spans := m.batch()
				write(t, s, td)
				if len(spans) > 0 {
					m.follow(s, spans)
				}
				if merged, err := s.mergeOnce(); err != nil {
					t.Fatal(err)
				} else if merged {
					merges++
					m.follow(s, nil)
				}
				if step%30 == 29 {
					m.expire(t, s)
				}
				// Now and then the clock of searches has run out already: their
				// pages are short, and together the same.
				s.searches = searchTime
				if step%5 == 0 {
					s.searches = 0
				}
				for range 3 {
					m.check(t, s, m.query())
				}
				if step%10 == 9 {
					m.checkTotals(t, s)
				}
			}
			if merges < 3 {
				t.Errorf("%d merges", merges)
			}
		})
	}
}

// expire removes about half of the chunks.
func (m *model) expire(t *testing.T, s *Store) {
	t.Helper()
	s.opt.MaxAge = time.Hour
	defer func() { s.opt.MaxAge = 0 }()
	limit := hour0 + 30_000_000
	before := s.Stats()
	if err := s.expire(context.Background(), timeOf(limit).Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	removed := 0
	list := s.list()
	for z, spans := range m.chunks {
		newest := uint64(0)
		for _, x := range spans {
			newest = max(newest, x.start)
		}
		if there := slices.Contains(list, z); there != (min(newest, z.written) >= limit) {
			t.Fatalf("a chunk whose newest span is of %d is there: %v", newest, there)
		} else if !there {
			removed += len(spans)
			delete(m.chunks, z)
		}
	}
	if got := s.Stats(); got.Expired-before.Expired != uint64(removed) || before.Spans-got.Spans != uint64(removed) {
		t.Fatalf("%d spans expired, Stats says %d", removed, got.Expired-before.Expired)
	}
}

// checkTotals compares services, operations, counts, and every trace.
func (m *model) checkTotals(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	wantSpans, services, last := 0, map[string]uint64{}, map[string]uint64{}
	type op struct {
		service, name string
		kind          int32
	}
	ops := map[op]uint64{}
	for id, spans := range m.byTrace() {
		td, err := s.Trace(ctx, id)
		if err != nil || td.SpanCount() != len(spans) {
			t.Fatalf("trace %v: %d spans, %v; want %d", id, td.SpanCount(), err, len(spans))
		}
		for _, x := range spans {
			wantSpans++
			services[x.service]++
			last[x.service] = max(last[x.service], x.start)
			ops[op{x.service, x.name, x.kind}]++
		}
	}
	if st := s.Stats(); st.Spans != uint64(wantSpans) {
		t.Fatalf("%d spans, want %d", st.Spans, wantSpans)
	}
	got, err := s.Services(ctx)
	if err != nil || len(got) != len(services) {
		t.Fatalf("services %v, %v; want %v", got, err, services)
	}
	for _, x := range got {
		if services[x.Name] != x.Spans || !x.Last.Equal(timeOf(last[x.Name])) {
			t.Fatalf("service %+v, want %d spans, last %v", x, services[x.Name], timeOf(last[x.Name]))
		}
		list, err := s.Operations(ctx, x.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if k := (op{x.Name, o.Name, o.Kind}); ops[k] != o.Spans {
				t.Fatalf("%+v of %s, want %d", o, x.Name, ops[k])
			} else {
				delete(ops, k)
			}
		}
	}
	if len(ops) > 0 {
		t.Fatalf("operations missing: %v", ops)
	}
}
