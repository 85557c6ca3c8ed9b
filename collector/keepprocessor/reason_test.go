package keepprocessor

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

func ptr[T any](v T) *T { return &v }

// change returns specs with one of them changed.
func change(specs []spec, i int, f func(*spec)) []spec {
	specs = slices.Clone(specs)
	specs[i].attributes = maps.Clone(specs[i].attributes)
	if specs[i].attributes == nil {
		specs[i].attributes = map[string]any{}
	}
	f(&specs[i])
	return specs
}

func fails(s *spec) { s.failed = true }

func answers(status any) func(*spec) {
	return func(s *spec) { s.attributes["http.response.status_code"] = status }
}

func incomplete(s *spec) { s.attributes[semconv.TraceState] = semconv.StateIncomplete }

func TestErrors(t *testing.T) {
	plain := request("shop", "GET /")
	for name, c := range map[string]struct {
		specs []spec
		by    []string // values of errors that keep it
	}{
		"none":                            {plain, nil},
		"root failed":                     {change(plain, 0, fails), []string{ErrorsAny, ErrorsRoot, ErrorsServer}},
		"client span failed":              {change(plain, 1, fails), []string{ErrorsAny}},
		"inner server failed":             {change(plain, 2, fails), []string{ErrorsAny, ErrorsServer}},
		"root answered 500":               {change(plain, 0, answers(500)), []string{ErrorsAny, ErrorsRoot, ErrorsServer}},
		"inner server answered 503":       {change(plain, 2, answers(503)), []string{ErrorsAny, ErrorsServer}},
		"older key, as text":              {change(plain, 2, func(s *spec) { s.attributes["http.status_code"] = "502" }), []string{ErrorsAny, ErrorsServer}},
		"499":                             {change(plain, 0, answers(499)), nil},
		"a client that saw 500":           {change(plain, 1, answers(500)), nil},
		"a status that is no number":      {change(plain, 0, answers("5xx")), nil},
		"root of an incomplete one fails": {change(change(plain, 0, incomplete), 0, fails), []string{ErrorsAny, ErrorsRoot, ErrorsServer}},
	} {
		for _, value := range []string{ErrorsAny, ErrorsRoot, ErrorsServer, ErrorsNone} {
			config := quiet()
			config.Errors = value
			k := keeperOf(t, config, newClock())
			want := ""
			if slices.Contains(c.by, value) {
				want = "error"
			}
			assert.Equal(t, want, reasonOf(t, decided(t, k, one(1, c.specs...))), "%s, errors: %s", name, value)
		}
	}
}

func TestSlowerThan(t *testing.T) {
	config := quiet()
	config.Slow = Slow{SlowerThan: time.Second, Operations: []Operation{
		{Service: "report", Name: "GET /monthly/*", SlowerThan: time.Minute},
		{Service: "batch"},
		{Name: "GET /fast", SlowerThan: time.Millisecond},
		{Service: "report", SlowerThan: time.Second}, // the first that matches decides
	}}
	for _, c := range []struct {
		service, name string
		took          time.Duration
		want          string
	}{
		{"shop", "GET /", time.Second, ""},
		{"shop", "GET /", time.Second + 1, "slow"},
		{"report", "GET /", 2 * time.Second, "slow"},
		{"report", "GET /monthly/1", 2 * time.Second, ""},
		{"report", "GET /monthly/1", 2 * time.Minute, "slow"},
		{"batch", "x", time.Hour, ""},
		{"shop", "GET /fast", 2 * time.Millisecond, "slow"},
	} {
		k := keeperOf(t, config, newClock())
		specs := change(request(c.service, c.name), 0, func(s *spec) { s.duration = c.took })
		assert.Equal(t, c.want, reasonOf(t, decided(t, k, one(1, specs...))), "%s %s in %v", c.service, c.name, c.took)
	}
	// Only the root's duration counts.
	k := keeperOf(t, config, newClock())
	specs := change(request("shop", "GET /"), 2, func(s *spec) { s.duration = time.Hour })
	assert.Equal(t, "", reasonOf(t, decided(t, k, one(1, specs...))), "a long child")
}

func TestRules(t *testing.T) {
	plain := change(request("shop", "GET /health"), 2, func(s *spec) {
		s.attributes["tier"] = "gold"
		s.attributes["n"] = 42
		s.attributes["half"] = 0.5
		s.attributes["ok"] = true
		s.attributes["tags"] = []any{"a", "b", 7}
		s.attributes["raw"] = []byte("gold")
	})
	with := func(key, pattern string) Rule { return Rule{Attributes: map[string]string{key: pattern}} }
	for _, c := range []struct {
		rules []Rule
		want  string
	}{
		{[]Rule{{Name: "GET /stock"}}, "rule"},
		{[]Rule{{Name: "GET /stock", Root: true}}, ""},
		{[]Rule{{Name: "GET /health", Root: true}}, "rule"},
		{[]Rule{{Service: "stock", Kind: "server"}}, "rule"},
		{[]Rule{{Service: "stock", Kind: "client"}}, ""},
		{[]Rule{with("tier", "gold")}, "rule"},
		{[]Rule{with("tier", "silver")}, ""},
		{[]Rule{with("tier", "g*")}, "rule"},
		{[]Rule{with("n", "42")}, "rule"},
		{[]Rule{with("half", "0.5")}, "rule"},
		{[]Rule{with("ok", "true")}, "rule"},
		{[]Rule{with("tags", "b")}, "rule"},
		{[]Rule{with("tags", "7")}, "rule"},
		{[]Rule{with("tags", "c")}, ""},
		{[]Rule{with("raw", "gold")}, ""},
		{[]Rule{with("region", "eu-stock")}, "rule"}, // of the resource
		{[]Rule{{Service: "shop", Attributes: map[string]string{"region": "eu-stock"}}}, ""},
		{[]Rule{with("missing", "**")}, ""},
		// The first that a span matches decides.
		{[]Rule{{Service: "shop", Probability: ptr(0.0)}, {Service: "stock"}}, ""},
		{[]Rule{{Service: "stock"}, {Service: "shop", Probability: ptr(0.0)}}, "rule"},
		{[]Rule{{Service: "none"}, {Name: "GET /health", Root: true}, {Service: "shop", Probability: ptr(0.0)}}, "rule"},
		{[]Rule{{Service: "none"}, {Name: "GET /health", Root: true, Probability: ptr(0.0)}, {Service: "shop"}}, ""},
	} {
		config := quiet()
		config.Rules = c.rules
		assert.Equal(t, c.want, reasonOf(t, decided(t, keeperOf(t, config, newClock()), one(1, plain...))), "%+v", c.rules)
	}
}

// A rule with probability 0 drops even failed traces; a probability between 0 and 1
// applies only to traces that nothing else keeps.
func TestOrder(t *testing.T) {
	config := quiet()
	config.Errors = ErrorsAny
	config.Slow.SlowerThan = time.Second
	config.Rare = Rare{First: 1, Interval: time.Hour, AtMost: 100}
	config.Incomplete = IncompleteKeep
	config.Rules = []Rule{{Name: "GET /health", Probability: ptr(0.0)}, {Name: "GET /some", Probability: ptr(0.001)}, {Name: "GET /gold"}}
	config.Share.Probability = 1e-9
	k := keeperOf(t, config, newClock())
	slow := func(s *spec) { s.duration = time.Minute }
	const low = 1 // of the random bits: nothing keeps it but for certain
	for i, c := range []struct {
		bits  uint64
		specs []spec
		want  string
	}{
		{low, change(change(request("shop", "GET /health"), 0, fails), 0, slow), ""},
		{low, change(change(request("shop", "GET /gold"), 0, fails), 0, slow), "error"},
		{low, change(request("shop", "GET /gold"), 0, slow), "slow"},
		{low, request("shop", "GET /x"), "rare"},
		{low, request("shop", "GET /x"), ""},
		{low, request("shop", "GET /gold"), "rule"}, // its path came before, with the failed one
		{low, change(request("shop", "GET /gold"), 0, incomplete), "rule"},
		{low, change(request("shop", "GET /new"), 0, incomplete), "incomplete"}, // never rare
		{low, request("shop", "GET /some"), "rare"},
		{low, request("shop", "GET /some"), ""},
		{1<<56 - 1, request("shop", "GET /some"), "rule"},
		{1<<56 - 1, request("shop", "GET /x"), "share"},
	} {
		assert.Equal(t, c.want, reasonOf(t, decided(t, k, one(c.bits, c.specs...))), "%d", i)
	}
}

func TestIncomplete(t *testing.T) {
	specs := change(request("shop", "GET /"), 0, incomplete)
	for value, want := range map[string]string{IncompleteKeep: "incomplete", IncompleteShare: "", IncompleteDrop: ""} {
		config := quiet()
		config.Incomplete = value
		k := keeperOf(t, config, newClock())
		assert.Equal(t, want, reasonOf(t, decided(t, k, one(1, specs...))), "incomplete: %s", value)
		if got := k.counts.dropped[byIncomplete] == 1; got != (value == IncompleteDrop) {
			t.Errorf("incomplete: %s: counted as dropped for that: %v", value, got)
		}
	}
	config := quiet()
	config.Incomplete, config.Errors, config.Share.Probability = IncompleteDrop, ErrorsAny, 1
	k := keeperOf(t, config, newClock())
	assert.Equal(t, "", reasonOf(t, decided(t, k, one(1, change(specs, 0, fails)...))), "drop: a failed one is kept")
	assert.Equal(t, "share", reasonOf(t, decided(t, k, one(1, request("shop", "GET /")...))), "drop: a complete one")
}

// The reason is on the span that tare_tracer has chosen as top, else on the root, else on
// the earliest span.
func TestTopSpan(t *testing.T) {
	config := quiet()
	config.Share.Probability = 1
	for want, specs := range map[string][]spec{
		"judged":   {{name: "root"}, {name: "judged", parent: 9, attributes: map[string]any{semconv.TraceState: semconv.StateIncomplete}}, {name: "x", parent: 1}},
		"root":     {{name: "early", parent: 9}, {name: "root"}, {name: "x", parent: 1}},
		"earliest": {{name: "y", parent: 9, start: 100}, {name: "earliest", parent: 9}, {name: "x", parent: 8}},
	} {
		td := decided(t, keeperOf(t, config, newClock()), one(1, specs...))
		for s := range spans(td) {
			if _, ok := s.Attributes().Get(semconv.KeepReason); ok != (s.Name() == want) {
				t.Errorf("want the reason on %s; %s has it: %v", want, s.Name(), ok)
			}
		}
	}
}

// A trace is incomplete if any of its spans says so.
func TestJudgedTwice(t *testing.T) {
	config := quiet()
	config.Incomplete = IncompleteKeep
	specs := change(change(request("shop", "GET /"), 0, incomplete), 1, func(s *spec) { s.attributes[semconv.TraceState] = semconv.StateComplete })
	assert.Equal(t, "incomplete", reasonOf(t, decided(t, keeperOf(t, config, newClock()), one(1, specs...))))
}

// Only the durations of roots are learned.
func TestLearnsFromRoots(t *testing.T) {
	config := quiet()
	config.Slow.Learn = Learn{Quantile: 0.99, Operations: 10}
	k := keeperOf(t, config, newClock())
	decided(t, k, one(1, spec{service: "shop", name: "no root", parent: 9}))
	decided(t, k, one(2, change(request("shop", "incomplete"), 0, incomplete)...))
	assert.Equal(t, 0, len(k.learned.operations), "operations")
	decided(t, k, one(3, request("shop", "GET /")...))
	assert.Equal(t, 1, len(k.learned.operations), "operations")
}

// Each trace in a message is decided separately, wherever its spans are.
func TestManyTracesInOneMessage(t *testing.T) {
	config := quiet()
	config.Errors = ErrorsAny
	k := keeperOf(t, config, newClock())
	td := ptrace.NewTraces()
	resources := map[string]ptrace.SpanSlice{}
	for i := range 50 {
		specs := request(fmt.Sprint("service-", i%3), "GET /")
		if i%5 == 0 {
			specs = change(specs, 2, fails)
		}
		addTrace(td, resources, idOf(uint64(i)), specs)
	}
	left := map[byte]int{}
	for s := range spans(decided(t, k, td)) {
		id := s.TraceID()
		left[id[15]]++
	}
	for i := range byte(50) {
		want := 0
		if i%5 == 0 {
			want = 3
		}
		assert.Equal(t, want, left[i], "trace %d: spans left", i)
	}
	if k.counts.kept[byError] != 10 || k.counts.dropped[byShare] != 40 || k.counts.spansDropped != 120 {
		t.Errorf("%+v", k.counts)
	}
	// Nothing empty is handed on: of the spans' resources, all that are left have spans.
	assert.Equal(t, 4, td.ResourceSpans().Len(), "resources")
}
