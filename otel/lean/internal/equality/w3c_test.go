package equality_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

type carrier = propagation.MapCarrier

const (
	idTrace = "0af7651916cd43dd8448eb211c80319c"
	idSpan  = "b7ad6b7169203331"
	parent  = "00-" + idTrace + "-" + idSpan + "-01"
)

// w3cCase is what comes in, and whether the trace goes on: the same trace id goes out, with a new parent
// id, or a new trace begins.
type w3cCase struct {
	name                string
	traceparent, states string
	goesOn              bool
	flags, out          string // of what goes out, if it goes on; the tracestate that goes out
}

// w3cCases are the cases of W3C Trace Context (REC-trace-context-1, and its Level 2 for the random flag),
// numbered by their section.
func w3cCases() []w3cCase {
	long := func(n int) string {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf("bar%02d=%02d", i, i)
		}
		return strings.Join(members, ",")
	}
	k256, v256 := "a"+strings.Repeat("z", 255), strings.Repeat("v", 256)
	cases := []w3cCase{
		{"3.2.2.3 sampled", parent, "", true, "01", ""},
		{"3.2.2.3 not sampled", "00-" + idTrace + "-" + idSpan + "-00", "", true, "00", ""},
		{"L2 3.2.2.5 random, sampled", "00-" + idTrace + "-" + idSpan + "-03", "", true, "03", ""},
		{"L2 3.2.2.5 random, not sampled", "00-" + idTrace + "-" + idSpan + "-02", "", true, "02", ""},
		{"3.2.2.1 a higher version", "cc-" + idTrace + "-" + idSpan + "-01", "", true, "01", ""},
		{"3.2.4 a higher version with more", "cc-" + idTrace + "-" + idSpan + "-01-what-the-future-will-be-like", "", true, "01", ""},
		{"3.2.4 a higher version, more without a dash", "cc-" + idTrace + "-" + idSpan + "-01.what", "", false, "", ""},
		{"3.2.2.1 version ff", "ff-" + idTrace + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.1 version 00 with more", parent + "-what", "", false, "", ""},
		{"3.2.2.2 version not hex", ".0-" + idTrace + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.2 version of one letter", "0-" + idTrace + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.3 trace id all zero", "00-" + strings.Repeat("0", 32) + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.3 trace id in capitals", "00-" + strings.ToUpper(idTrace) + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.3 trace id not hex", "00-.2345678901234567890123456789012-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.3 trace id too long", "00-" + idTrace + "1-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.3 trace id too short", "00-" + idTrace[1:] + "-" + idSpan + "-01", "", false, "", ""},
		{"3.2.2.4 parent id all zero", "00-" + idTrace + "-0000000000000000-01", "", false, "", ""},
		{"3.2.2.4 parent id in capitals", "00-" + idTrace + "-" + strings.ToUpper(idSpan) + "-01", "", false, "", ""},
		{"3.2.2.4 parent id not hex", "00-" + idTrace + "-.234567890123456-01", "", false, "", ""},
		{"3.2.2.4 parent id too long", "00-" + idTrace + "-" + idSpan + "1-01", "", false, "", ""},
		{"3.2.2.5 flags not hex", "00-" + idTrace + "-" + idSpan + "-.0", "", false, "", ""},
		{"3.2.2.5 flags too long", "00-" + idTrace + "-" + idSpan + "-001", "", false, "", ""},
		{"3.2.2.5 flags missing", "00-" + idTrace + "-" + idSpan, "", false, "", ""},
		{"3.2.2 space before", " " + parent, "", false, "", ""},
		{"3.2.2 empty", "", "", false, "", ""},
		{"3.3 tracestate without traceparent", "", "foo=1", false, "", ""},
		{"3.3 tracestate with a traceparent that is wrong", "00-" + idTrace + "-wrong-01", "foo=1", false, "", ""},
		{"3.3.1 one member", parent, "foo=1", true, "01", "foo=1"},
		{"3.3.1 kept in order", parent, "foo=1,bar=2,baz=3", true, "01", "foo=1,bar=2,baz=3"},
		{"3.3.1 kept when not sampled", "00-" + idTrace + "-" + idSpan + "-00", "foo=1,bar=2", true, "00", "foo=1,bar=2"},
		{"3.3.1.1 32 members", parent, long(32), true, "01", long(32)},
		{"3.3.1.1 33 members", parent, long(33), true, "01", ""},
		{"3.3.1.1 empty members", parent, "foo=1,,bar=2,", true, "01", "foo=1,bar=2"},
		{"3.3.1.1 white space around members", parent, "foo=1 \t , \tbar=2", true, "01", "foo=1,bar=2"},
		{"3.3.1.1 only an empty member", parent, ",", true, "01", ""},
		{"3.3.1.3.1 every letter of a key", parent, "a0_-*/=1", true, "01", "a0_-*/=1"},
		{"3.3.1.3.1 key of several tenants", parent, "t1@system=1", true, "01", "t1@system=1"},
		{"3.3.1.3.1 key with a tenant that begins with a digit", parent, "1t@v=1", true, "01", "1t@v=1"},
		{"3.3.1.3.1 key in capitals", parent, "FOO=1", true, "01", ""},
		{"3.3.1.3.1 key with a dot", parent, "foo.bar=1", true, "01", ""},
		{"3.3.1.3.1 key with a space", parent, "foo bar=1", true, "01", ""},
		{"3.3.1.3.1 key that is empty", parent, "=1", true, "01", ""},
		{"3.3.1.3.1 key with two @", parent, "foo@bar@baz=1", true, "01", ""},
		{"3.3.1.3.1 key of 256", parent, k256 + "=1", true, "01", k256 + "=1"},
		{"3.3.1.3.1 key of 257", parent, k256 + "z=1", true, "01", ""},
		{"3.3.1.3.1 key twice", parent, "foo=1,foo=2", true, "01", ""},
		{"3.3.1.3.1 one wrong member spoils all", parent, "foo=1,BAR=2", true, "01", ""},
		{"3.3.1.3.2 value of 256", parent, "foo=" + v256, true, "01", "foo=" + v256},
		{"3.3.1.3.2 value of 257", parent, "foo=" + v256 + "v", true, "01", ""},
		{"3.3.1.3.2 value with =", parent, "foo=a=b", true, "01", ""},
		{"3.3.1.3.2 value with a space inside", parent, "foo=a b", true, "01", "foo=a b"},
		{"3.3.1.3.2 value not ASCII", parent, "foo=ä", true, "01", ""},
		{"3.3.1.3.2 member without value", parent, "foo", true, "01", ""},
	}
	return cases
}

// w3cPrograms run each case with a sampler that follows the parent, one that never samples, and one that
// changes the tracestate (section 3.5: the own member to the front, the others untouched).
func w3cPrograms() []program {
	var out []program
	mutate := func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
		ts, err := state(p).Insert("ot", "th:8")
		if err != nil {
			panic(err)
		}
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: ts}
	}
	for _, c := range w3cCases() {
		run := func(ctx context.Context, e *env) {
			header := http.Header{}
			for k, v := range map[string]string{"traceparent": c.traceparent, "tracestate": c.states} {
				if v != "" {
					header.Set(k, v)
				}
			}
			ctx = e.Propagator.Extract(ctx, propagation.HeaderCarrier(header))
			family(ctx, e, trace.WithSpanKind(trace.SpanKindServer))
		}
		out = append(out,
			program{Name: "w3c/" + c.name, Run: run},
			with(program{Name: "w3c/" + c.name + ", never sampled", Run: run}, options{Sampler: sdktrace.NeverSample()}),
			program{Name: "w3c/" + c.name + ", tracestate changed", Run: run, Options: func(e *env) options { return options{Sampler: spying{e, mutate}} }})
	}
	return out
}

// TestW3C holds both pipelines to the specification, not only to each other.
func TestW3C(t *testing.T) {
	for _, c := range w3cCases() {
		for _, pipe := range []equality.Pipeline{equality.Official, against()} {
			t.Run(c.name+"/"+pipe.Name, func(t *testing.T) {
				out := carrier{}
				p := program{Run: func(ctx context.Context, e *env) {
					in := carrier{}
					for k, v := range map[string]string{"traceparent": c.traceparent, "tracestate": c.states} {
						if v != "" {
							in[k] = v
						}
					}
					ctx, s := e.Main().Start(e.Propagator.Extract(ctx, in), "s")
					e.Propagator.Inject(ctx, out)
					s.End()
				}}
				result, err := equality.Run(p, pipe, receiver, false)
				require.NoError(t, err)
				part := strings.Split(out["traceparent"], "-")
				if len(part) != 4 || part[0] != "00" {
					t.Fatalf("traceparent %q goes out", out["traceparent"])
				}
				flags := c.flags
				if !c.goesOn {
					flags = "01"
				}
				if (part[1] == idTrace) != c.goesOn || part[2] == idSpan || part[3] != flags || out["tracestate"] != c.out {
					t.Errorf("%q, %q goes out", out["traceparent"], out["tracestate"])
				}
				// What was exported belongs to what went out.
				sampled := strings.HasSuffix(flags, "1") || strings.HasSuffix(flags, "3")
				require.Equal(t, sampled, len(result.Spans) == 1, "%d spans arrived", len(result.Spans))
				for _, s := range result.Spans {
					if hex.EncodeToString(s.GetTraceId()) != part[1] || hex.EncodeToString(s.GetSpanId()) != part[2] || s.GetTraceState() != c.out ||
						c.goesOn != (hex.EncodeToString(s.GetParentSpanId()) == idSpan) {
						t.Errorf("exported as %v", s.Span)
					}
				}
			})
		}
	}
}
