package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// without returns the spans that keep allows.
func without(td ptrace.Traces, keep func(r pcommon.Resource, s ptrace.Span) bool) ptrace.Traces {
	out := ptrace.NewTraces()
	td.CopyTo(out)
	out.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return !keep(rs.Resource(), s) })
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
	return out
}

// What a scope or a rule leaves out is, in every query, as if it had never been stored: a store that only got the
// rest gives the same answers. Afterwards the same holds when it has been removed from the disk.
func TestHeavyLeftOutIsAsIfNeverStored(t *testing.T) {
	const limit = hour0 + 25_000_000
	all := context.Background()
	for name, c := range map[string]struct {
		scope *Scope
		rules map[string]time.Duration
	}{
		"one service":         {&Scope{Services: []string{"a"}}, nil},
		"a pattern":           {&Scope{Services: []string{"un*_service", "b"}}, nil},
		"by namespace":        {&Scope{Services: []string{"*"}, Namespaces: []string{"x*"}}, nil},
		"by environment":      {&Scope{Services: []string{"a", "b", "c"}, Environments: []string{"prod"}}, nil},
		"nothing":             {&Scope{Services: []string{"none"}}, nil},
		"retention":           {nil, map[string]time.Duration{"a": time.Hour, "un*": time.Hour}},
		"retention of all":    {nil, map[string]time.Duration{"*": time.Hour}},
		"retention and scope": {&Scope{Services: []string{"a", "b"}}, map[string]time.Duration{"a": time.Hour, "c": time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &model{r: rand.New(rand.NewPCG(7, uint64(len(name)))), stated: map[pcommon.TraceID]bool{}}
			clock := func() time.Time { return timeOf(limit).Add(time.Hour) }
			whole := open(t, Options{NoSync: true, byHand: true, Services: c.rules, clock: clock})
			rest := open(t, Options{NoSync: true, byHand: true})
			l := lens{scope: c.scope, rules: whole.rules(clock())}
			ctx := WithScope(all, c.scope)
			if c.scope == nil {
				ctx = all
			}
			left := map[pcommon.TraceID]int{} // spans that the scope hides
			old := uint64(0)
			for step := range 24 {
				td, _ := m.batch()
				for i, rs := range td.ResourceSpans().All() {
					if i%3 > 0 {
						rs.Resource().Attributes().PutStr("service.namespace", pick(m.r, []string{"x1", "x2", "y"}))
						rs.Resource().Attributes().PutStr(pick(m.r, []string{"deployment.environment", "deployment.environment.name"}), pick(m.r, []string{"prod", "test"}))
					}
				}
				for _, rs := range td.ResourceSpans().All() {
					for _, ss := range rs.ScopeSpans().All() {
						for _, s := range ss.Spans().All() {
							s.Attributes().Remove(semconv.TraceState)               // TestVerdictGoesWithItsSpan
							if step%2 == 0 && uint64(s.StartTimestamp()) >= limit { // a chunk in which all spans are old
								old++
								s.SetStartTimestamp(pcommon.Timestamp(hour0 + old))
							}
						}
					}
				}
				write(t, whole, td)
				write(t, rest, without(td, func(r pcommon.Resource, s ptrace.Span) bool {
					id := identityIn(r)
					young := min(uint64(s.StartTimestamp()), uint64(time.Now().UnixNano())) >= l.limit(id.service)
					sees := c.scope == nil || c.scope.Sees(id.service, id.namespace, id.environment)
					if young && !sees {
						left[s.TraceID()]++
					}
					return young && sees
				}))
				if step%8 == 7 {
					sameAnswers(ctx, t, whole, rest, m, left)
				}
			}
			before := whole.Stats().Spans
			if err := whole.expire(all, clock()); err != nil {
				t.Fatal(err)
			}
			if st := whole.Stats(); c.rules != nil && (st.Expired == 0 || st.Spans+st.Expired != before) {
				t.Errorf("%d spans, then %+v", before, st)
			}
			sameAnswers(ctx, t, whole, rest, m, left)
			checkRemoved(t, whole, limit)
			if err := whole.expire(all, clock()); err != nil { // nothing is left to do
				t.Fatal(err)
			}
			if st := whole.Stats(); st.Spans+st.Expired != before {
				t.Errorf("again: %+v", st)
			}
		})
	}
}

// checkRemoved looks into the chunks as they are stored: where all spans of a service have expired, nothing of its
// resource and no name of its spans is there.
func checkRemoved(t *testing.T, s *Store, limit uint64) {
	t.Helper()
	v, err := s.view()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.close(); err != nil {
			t.Error(err)
		}
	}()
	l := &lens{rules: s.rules(s.now())}
	for _, z := range v.chunks {
		parts, err := v.ruledOf(z, l)
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, p := range parts {
			there[p.service] = true
			if p.max < limit {
				t.Errorf("chunk %d has %+v", z.chunk, p)
			}
		}
		c, err := v.chunk(z.chunk, z)
		if err != nil {
			t.Fatal(err)
		}
		groups, err := c.resources()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if id, err := identityOf(g.resource); err != nil || l.limit(id.service) > 0 && !there[id.service] {
				t.Errorf("chunk %d has a resource of %v, %v", z.chunk, id, err)
			}
		}
		if err := v.checkChunk(context.Background(), z); err != nil {
			t.Error(err)
		}
	}
}

func sameAnswers(ctx context.Context, t *testing.T, whole, rest *Store, m *model, left map[pcommon.TraceID]int) {
	t.Helper()
	all := context.Background()
	same := func(what string, got, want any, err, err2 error) {
		t.Helper()
		if err != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", what, err, err2)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	for range 4 {
		q := m.query()
		q.State = ""
		for _, q.Sort = range []Order{ByDuration, BySpans} {
			got, err := whole.Search(ctx, q)
			want, err2 := rest.Search(all, q)
			same(fmt.Sprintf("search %+v", q), got, want, err, err2)
		}
		q.Sort = ByTime
		for {
			got, err := whole.Search(ctx, q)
			want, err2 := rest.Search(all, q)
			same(fmt.Sprintf("search %+v", q), got, want, err, err2)
			if q.After = got.Next; q.After == "" {
				break
			}
		}
		got, err := whole.Overview(ctx, q, 7)
		want, err2 := rest.Overview(all, q, 7)
		same(fmt.Sprintf("overview %+v", q), got, want, err, err2)
	}
	services, err := whole.Services(ctx)
	want, err2 := rest.Services(all)
	same("services", services, want, err, err2)
	for _, service := range append(modelServices, "", "none") {
		got, err := whole.Operations(ctx, service)
		want, err2 := rest.Operations(all, service)
		same("operations of "+service, got, want, err, err2)
		for _, by := range []bool{true, false} {
			got, err := whole.Latencies(ctx, time.Time{}, time.Time{}, service, by)
			want, err2 := rest.Latencies(all, time.Time{}, time.Time{}, service, by)
			same("latencies of "+service, got, want, err, err2)
		}
	}
	series := SeriesQuery{Services: modelServices, ByOperation: true, Start: timeOf(hour0), End: timeOf(hour0 + 50_000_000),
		Step: 10 * time.Millisecond, Window: 20 * time.Millisecond, Quantile: 0.5}
	for _, series.Conditions = range [][]Condition{nil, {{Key: "k", Value: "200"}}} {
		got, err := whole.Series(ctx, series)
		want, err2 := rest.Series(all, series)
		same("series", got, want, err, err2)
	}
	// A call whose callee is left out stays, without its name or with that of whom it called.
	edges := func(m Map) []Edge {
		return slices.DeleteFunc(m.Edges, func(e Edge) bool {
			return e.To == OtherServices || (&lens{rules: whole.rules(whole.now())}).limit(e.To) > 0
		})
	}
	got, err := whole.Map(ctx, time.Time{}, time.Time{})
	wantMap, err2 := rest.Map(all, time.Time{}, time.Time{})
	same("nodes", got.Nodes, wantMap.Nodes, err, err2)
	same("edges", append([]Edge{}, edges(got)...), append([]Edge{}, edges(wantMap)...), nil, nil)
	for n := range uint64(41) {
		id := traceID(n)
		got, err := whole.Find(ctx, id)
		want, err2 := rest.Find(all, id)
		if errors.Is(err, ErrNotFound) != errors.Is(err2, ErrNotFound) {
			t.Fatalf("trace %d: %v, want %v", n, err, err2)
		}
		same("trace", eachOf(t, got.Traces), eachOf(t, want.Traces), nil, nil)
		if err == nil && got.HiddenSpans != left[id] {
			t.Fatalf("trace %d: %d spans are hidden, want %d", n, got.HiddenSpans, left[id])
		}
	}
}

// eachOf is the encoding of every span by itself, with its resource and scope, in one order.
func eachOf(t *testing.T, td ptrace.Traces) []string {
	t.Helper()
	var out []string
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				one := ptrace.NewTraces()
				to := one.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(to.Resource())
				in := to.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(in.Scope())
				s.CopyTo(in.Spans().AppendEmpty())
				b, err := encode(one)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(b))
			}
		}
	}
	slices.Sort(out)
	return out
}

// What the collector said of a trace is said by its top span, and shown with that alone.
func TestVerdictGoesWithItsSpan(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	write(t, s, shop(0, 3))
	for service, want := range map[string]string{"gateway": "complete", "pay": ""} {
		r, err := s.Search(WithScope(context.Background(), &Scope{Services: []string{service}}), Query{})
		if err != nil || len(r.Traces) != 3 || r.Traces[0].State != want || r.Traces[0].Service != service {
			t.Errorf("%s: %+v, %v", service, r.Traces, err)
		}
		r, err = s.Search(WithScope(context.Background(), &Scope{Services: []string{service}}), Query{State: "complete"})
		if err != nil || (len(r.Traces) == 3) != (want != "") {
			t.Errorf("%s, complete ones: %+v, %v", service, r.Traces, err)
		}
	}
}

// The calls of a service are seen, those of others not, and callees that may not be seen have no names.
func TestCallsOfOwnServices(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	write(t, s, shop(0, 3))
	for _, c := range []struct{ services, want []string }{
		{[]string{"gateway"}, []string{"gateway " + OtherServices}},
		{[]string{"gateway", "cart"}, []string{"cart redis 10.1.2.3:8080", "gateway " + OtherServices, "gateway cart"}},
		{[]string{"cart"}, []string{"cart redis 10.1.2.3:8080"}},
	} {
		ctx := WithScope(context.Background(), &Scope{Services: c.services})
		m, err := s.Map(ctx, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range m.Edges {
			got = append(got, e.From+" "+e.To)
		}
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), c.want) {
			t.Errorf("%v: %q, want %q", c.services, got, c.want)
		}
		r, err := s.Search(ctx, Query{Calls: "pay"})
		if err != nil || len(r.Traces) > 0 {
			t.Errorf("%v: calls of pay are found: %+v, %v", c.services, r.Traces, err)
		}
	}
}

// When the spans of a callee have expired, their caller is still known to have called it: before they are removed,
// afterwards, and when the chunk is merged.
func TestCallsOfExpiredServices(t *testing.T) {
	clock := timeOf(hour0 + 1_000_000_000)
	s := open(t, Options{NoSync: true, byHand: true, Services: map[string]time.Duration{"pay": time.Hour}, clock: func() time.Time { return clock }})
	for n := range mergeCount {
		write(t, s, shop(n, 1))
	}
	calls := func() int {
		t.Helper()
		m, err := s.Map(context.Background(), time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Edges {
			if e.From == "gateway" && e.To == "pay" && e.Traced {
				return int(e.Count)
			}
		}
		return 0
	}
	before := calls()
	clock = clock.Add(2 * time.Hour)
	if got := calls(); got != before || got == 0 {
		t.Errorf("expired: %d calls, there were %d", got, before)
	}
	if err := s.expire(context.Background(), clock); err != nil {
		t.Fatal(err)
	}
	if got := calls(); got != before || s.Stats().Expired != 2*mergeCount {
		t.Errorf("removed: %d calls, there were %d: %+v", got, before, s.Stats())
	}
	if merged, err := s.mergeOnce(); err != nil || !merged {
		t.Fatal(merged, err)
	}
	if got := calls(); got != before {
		t.Errorf("merged: %d calls, there were %d", got, before)
	}
}

func TestLogsOfServices(t *testing.T) {
	clock := timeOf(hour0)
	s := open(t, Options{NoSync: true, byHand: true, Services: map[string]time.Duration{"pay*": time.Hour}, clock: func() time.Time { return clock }})
	put := func(trace uint64, at time.Time, services ...string) {
		t.Helper()
		ld := plog.NewLogs()
		for _, service := range services {
			rl := ld.ResourceLogs().AppendEmpty()
			rl.Resource().Attributes().PutStr("service.name", service)
			r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
			r.SetTraceID(traceID(trace))
			r.SetTimestamp(pcommon.NewTimestampFromTime(at))
			r.Body().SetStr("secret of " + service)
		}
		if err := s.WriteLogs(context.Background(), ld); err != nil {
			t.Fatal(err)
		}
	}
	see := func(ctx context.Context, trace uint64) string {
		t.Helper()
		ld, err := s.Logs(ctx, traceID(trace))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, rl := range ld.ResourceLogs().All() {
			out = append(out, identityIn(rl.Resource()).service)
		}
		return strings.Join(out, " ")
	}
	all := context.Background()
	put(1, clock, "pay", "cart")
	put(2, clock, "pay")
	scoped := WithScope(all, &Scope{Services: []string{"c*"}})
	if got := see(all, 1) + ", " + see(scoped, 1) + ", " + see(scoped, 2); got != "pay cart, cart, " {
		t.Errorf("%q", got)
	}
	clock = clock.Add(time.Hour + time.Second)
	put(2, clock, "pay")
	if got := see(all, 1) + ", " + see(all, 2); got != "cart, pay" {
		t.Errorf("expired: %q", got)
	}
	if st := s.LogStats(); st.Records != 4 {
		t.Errorf("%+v", st)
	}
	clock = clock.Add(time.Hour / 2)
	for range 2 {
		if err := s.expire(all, clock); err != nil {
			t.Fatal(err)
		}
	}
	// The engine's own keys and values, as nobody may read them.
	if st := s.LogStats(); st.Records != 4 {
		t.Errorf("while another may still be young enough: %+v", st)
	}
	clock = clock.Add(time.Hour)
	if err := s.expire(all, clock); err != nil {
		t.Fatal(err)
	}
	if st := s.LogStats(); st.Records != 1 || st.Expired != 3 {
		t.Errorf("removed: %+v", st)
	}
	s.opt.Services = nil
	if got := see(all, 1) + ", " + see(all, 2); got != "cart, " {
		t.Errorf("on the disk: %q", got)
	}
}

func TestServiceRetentionMustMakeSense(t *testing.T) {
	for want, o := range map[string]Options{
		"at least 1s":     {Services: map[string]time.Duration{"a": time.Millisecond}},
		"without a name":  {Services: map[string]time.Duration{"": time.Hour}},
		"longer than 1h":  {MaxAge: time.Hour, Services: map[string]time.Duration{"a": 2 * time.Hour}},
		"no directory":    {},
		"negative is too": {Services: map[string]time.Duration{"a": -time.Hour}},
	} {
		if want != "no directory" {
			o.Dir = "d"
		}
		if want == "negative is too" {
			want = "at least 1s"
		}
		if err := o.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestScopeOfPatterns(t *testing.T) {
	for _, c := range []struct {
		scope Scope
		id    identity
		sees  bool
	}{
		{Scope{}, identity{service: "a"}, false},
		{Scope{Services: []string{"*"}}, identity{service: "a"}, true},
		{Scope{Services: []string{"pay*"}}, identity{service: "payments"}, true},
		{Scope{Services: []string{"pay*"}}, identity{service: "repay"}, false},
		{Scope{Services: []string{`a\*`}}, identity{service: "a*"}, true},
		{Scope{Services: []string{`a\*`}}, identity{service: "ab"}, false},
		{Scope{Services: []string{"*"}, Namespaces: []string{"x"}}, identity{service: "a"}, false},
		{Scope{Services: []string{"*"}, Namespaces: []string{"x"}}, identity{service: "a", namespace: "x"}, true},
		{Scope{Services: []string{"*"}, Environments: []string{"prod*"}}, identity{service: "a", environment: "production"}, true},
		{Scope{Services: []string{"*"}, Environments: []string{"prod*"}}, identity{service: "a", environment: "test"}, false},
	} {
		if got := c.scope.Sees(c.id.service, c.id.namespace, c.id.environment); got != c.sees {
			t.Errorf("%+v sees %+v: %v", c.scope, c.id, got)
		}
	}
	for _, s := range []Scope{{}, {Services: []string{""}}, {Services: []string{"a"}, Namespaces: []string{""}}} {
		if err := s.Validate(); err == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

// What agents and collectors say of other services on a span is not shown, and not found.
func TestWhatSpansTellOfOthers(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	td := shop(0, 1)
	root := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	root.Attributes().PutStr(semconv.TraceState, semconv.StateUnlinked)
	root.Attributes().PutStr(semconv.TraceReason, "ends_at=cart,ends_at=gateway,may_end_at=pay")
	root.Attributes().PutStr(semconv.KeepReason, "rule of pay")
	root.Attributes().PutStr(semconv.Behind, "pay")
	write(t, s, td)
	ctx := WithScope(context.Background(), &Scope{Services: []string{"gateway"}})
	const want = "ends_at,ends_at=gateway,may_end_at"
	got, err := s.Trace(ctx, traceID(1))
	if err != nil {
		t.Fatal(err)
	}
	attributes := got.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().AsRaw()
	if attributes[semconv.TraceReason] != want || attributes[semconv.KeepReason] != nil || attributes[semconv.Behind] != nil {
		t.Errorf("%v", attributes)
	}
	r, err := s.Search(ctx, Query{})
	if err != nil || len(r.Traces) != 1 || r.Traces[0].Reason != want || r.Traces[0].Keep != "" {
		t.Errorf("%+v, %v", r.Traces, err)
	}
	for _, c := range []Condition{
		{Key: semconv.Behind, Value: "pay"}, {Key: semconv.Behind, Op: NotEqual, Value: "stock"},
		{Key: semconv.TraceReason, Op: Like, Value: "*pay*"}, {Key: "x", Also: semconv.KeepReason, Op: Like, Value: "*"},
	} {
		if r, err := s.Search(context.Background(), Query{Conditions: []Condition{c}}); err != nil || len(r.Traces) != 1 {
			t.Errorf("%+v, without a scope: %+v, %v", c, r, err)
		}
		for _, sort := range []Order{ByTime, BySpans} {
			if r, err := s.Search(ctx, Query{Conditions: []Condition{c}, Sort: sort}); err != nil || len(r.Traces) != 0 {
				t.Errorf("%+v: %+v, %v", c, r, err)
			}
		}
		if o, err := s.Overview(ctx, Query{Conditions: []Condition{c}}, 3); err != nil || o.Traces != 0 {
			t.Errorf("%+v: %+v, %v", c, o, err)
		}
	}
}
