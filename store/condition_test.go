package store

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func TestParseCondition(t *testing.T) {
	for text, want := range map[string]Condition{
		"a=b":                            {Key: "a", Op: Equal, Value: "b"},
		"a=b=c":                          {Key: "a", Op: Equal, Value: "b=c"},
		"a=<5":                           {Key: "a", Op: Equal, Value: "<5"},
		"a=":                             {Key: "a", Op: Equal},
		"url.path=/check*":               {Key: "url.path", Op: Like, Value: "/check*"},
		"a!=b*":                          {Key: "a", Op: NotEqual, Value: "b*"},
		"http.response.status_code>=500": {Key: "http.response.status_code", Op: AtLeast, Value: "500"},
		"a>-1.5":                         {Key: "a", Op: More, Value: "-1.5"},
		"a<=1e3":                         {Key: "a", Op: AtMost, Value: "1e3"},
		"a<1":                            {Key: "a", Op: Less, Value: "1"},
		"":                               {}, "a": {}, "=a": {}, "a!b": {}, "a>b": {}, "a>": {},
	} {
		got, err := ParseCondition(text)
		if got != want || (err != nil) != (want == Condition{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// Conditions find the traces that they should, whatever the type of the value.
func TestConditions(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	values := []func(x ptrace.Span, scope pcommon.InstrumentationScope){
		1: func(x ptrace.Span, _ pcommon.InstrumentationScope) { x.Attributes().PutInt("code", 502) },
		2: func(x ptrace.Span, _ pcommon.InstrumentationScope) { x.Attributes().PutStr("code", "200") },
		3: func(x ptrace.Span, _ pcommon.InstrumentationScope) { x.Attributes().PutDouble("code", 499.5) },
		4: func(x ptrace.Span, _ pcommon.InstrumentationScope) {
			x.Attributes().PutStr("path", "/checkout/7")
			x.Status().SetCode(ptrace.StatusCodeError)
			x.Status().SetMessage("out of stock")
		},
		5: func(x ptrace.Span, scope pcommon.InstrumentationScope) {
			x.Attributes().PutStr("path", "/check*")
			x.TraceState().FromRaw("ot=th:8")
			scope.SetName("net/http")
			scope.SetVersion("v2")
		},
		6: func(x ptrace.Span, _ pcommon.InstrumentationScope) {
			x.Attributes().PutStr("old", "502")
			x.Status().SetCode(ptrace.StatusCodeOk)
		},
		7: func(x ptrace.Span, _ pcommon.InstrumentationScope) { x.Attributes().PutBool("code", true) },
		8: func(x ptrace.Span, _ pcommon.InstrumentationScope) {
			x.Attributes().PutEmptySlice("list").AppendEmpty().SetInt(17)
		},
	}
	for i, set := range values {
		if set == nil {
			continue
		}
		td := ptrace.NewTraces()
		ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		x := ss.Spans().AppendEmpty()
		x.SetTraceID(traceID(uint64(i)))
		x.SetSpanID(spanIDOf(uint64(i)))
		x.SetStartTimestamp(pcommon.Timestamp(hour0 + uint64(i)))
		set(x, ss.Scope())
		write(t, s, td)
	}
	want := map[Condition][]int{
		{Key: "code", Op: Equal, Value: "502"}:                  {1},
		{Key: "code", Value: "200"}:                             {2},
		{Key: "code", Op: AtLeast, Value: "499.5"}:              {3, 1},
		{Key: "code", Op: More, Value: "499.5"}:                 {1},
		{Key: "code", Op: Less, Value: "499.5"}:                 {2},
		{Key: "code", Op: AtMost, Value: "499.5"}:               {3, 2},
		{Key: "code", Op: NotEqual, Value: "200"}:               {7, 3, 1},
		{Key: "code", Op: Like, Value: "*0*"}:                   {2, 1},
		{Key: "code", Also: "old", Value: "502"}:                {6, 1},
		{Key: "old", Also: "code", Op: More, Value: "1"}:        {6, 3, 2, 1},
		{Key: "path", Op: Like, Value: "/check*"}:               {5, 4},
		{Key: "path", Op: Like, Value: "*/7"}:                   {4},
		{Key: "path", Op: Like, Value: "/c*k*t/*7"}:             {4},
		{Key: "path", Op: Like, Value: `/check\*`}:              {5},
		{Key: "path", Op: Like, Value: "check*"}:                nil,
		{Key: "path", Op: Equal, Value: "/check*"}:              {5},
		{Key: "list", Op: Like, Value: "*17*"}:                  {8},
		{Key: "otel.scope.name", Value: "net/http"}:             {5},
		{Key: "otel.scope.version", Op: Like, Value: "v*"}:      {5},
		{Key: "otel.status_code", Value: "ERROR"}:               {4},
		{Key: "otel.status_code", Value: "OK"}:                  {6},
		{Key: "otel.status_description", Value: "out of stock"}: {4},
		{Key: "w3c.tracestate", Value: "ot=th:8"}:               {5},
	}
	check := func() {
		t.Helper()
		for c, ids := range want {
			r, err := s.Search(t.Context(), Query{Conditions: []Condition{c}})
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, x := range r.Traces {
				got = append(got, int(x.TraceID[15]))
			}
			if fmt.Sprint(got) != fmt.Sprint(ids) {
				t.Errorf("%+v: traces %v, want %v", c, got, ids)
			}
		}
	}
	check()
	if err := s.merge(s.list()); err != nil {
		t.Fatal(err)
	}
	check()
	for _, c := range []Condition{{Key: "a", Op: "?"}, {Key: "a", Op: Less, Value: "x"}} {
		if _, err := s.Search(t.Context(), Query{Conditions: []Condition{c}}); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
