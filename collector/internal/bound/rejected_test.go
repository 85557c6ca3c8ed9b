package bound

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/collector/internal/limit"
	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span/text"
)

// ids are those of a span of a test; the zero value has none.
type ids struct{ trace, span byte }

func (i ids) bytes() (trace, span []byte) {
	trace, span = make([]byte, 16), make([]byte, 8)
	trace[15], span[7] = i.trace, i.span
	return trace, span
}

// field of protobuf that has bytes.
func protoBytes(n byte, value []byte) []byte {
	return append(binary.AppendUvarint([]byte{n<<3 | 2}, uint64(len(value))), value...)
}

// Requests of each protocol with spans of a name.
func otlpProto(name string, all ...ids) []byte {
	var spans []byte
	for _, i := range all {
		trace, span := i.bytes()
		spans = append(spans, protoBytes(2, bytes.Join([][]byte{protoBytes(1, trace), protoBytes(2, span), protoBytes(5, []byte(name))}, nil))...)
	}
	return protoBytes(1, protoBytes(2, spans))
}

func otlpJSON(name string, all ...ids) []byte {
	var spans []string
	for _, i := range all {
		trace, span := i.bytes()
		spans = append(spans, fmt.Sprintf(`{"traceId":"%x","spanId":"%x","name":%q}`, trace, span, name))
	}
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join(spans, ",") + `]}]}]}`)
}

func zipkinJSON(name string, all ...ids) []byte {
	var spans []string
	for _, i := range all {
		trace, span := i.bytes()
		spans = append(spans, fmt.Sprintf(`{"traceId":"%x","id":"%x","name":%q,"timestamp":1,"duration":1}`, trace, span, name))
	}
	return []byte("[" + strings.Join(spans, ",") + "]")
}

func zipkinProto(name string, all ...ids) (b []byte) {
	for _, i := range all {
		trace, span := i.bytes()
		b = append(b, protoBytes(1, bytes.Join([][]byte{protoBytes(1, trace), protoBytes(3, span), protoBytes(5, []byte(name))}, nil))...)
	}
	return b
}

func thriftField(kind, n byte, value []byte) []byte { return append([]byte{kind, 0, n}, value...) }

func thriftText(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) //nolint:gosec // short
}

func thriftSpans(all []ids, span func(trace, span []byte) [][]byte) []byte {
	list := binary.BigEndian.AppendUint32([]byte{tStruct}, uint32(len(all))) //nolint:gosec // few
	for _, i := range all {
		t, s := i.bytes()
		list = append(append(list, bytes.Join(span(t, s), nil)...), tStop)
	}
	return list
}

func jaegerThrift(name string, all ...ids) []byte {
	zero := make([]byte, 8)
	spans := thriftSpans(all, func(trace, span []byte) [][]byte {
		return [][]byte{thriftField(tI64, 1, trace[8:]), thriftField(tI64, 2, trace[:8]), thriftField(tI64, 3, span), thriftField(tI64, 4, zero),
			thriftField(tString, 5, thriftText(name)), thriftField(tI32, 7, zero[4:]), thriftField(tI64, 8, zero), thriftField(tI64, 9, zero)}
	})
	process := append(thriftField(tString, 1, thriftText("s")), tStop)
	return bytes.Join([][]byte{thriftField(tStruct, 1, process), thriftField(tList, 2, spans), {tStop}}, nil)
}

func zipkinThrift(name string, all ...ids) []byte {
	return thriftSpans(all, func(trace, span []byte) [][]byte {
		return [][]byte{thriftField(tI64, 1, trace[8:]), thriftField(tString, 3, thriftText(name)), thriftField(tI64, 4, span),
			thriftField(tList, 6, []byte{tStruct, 0, 0, 0, 0}), thriftField(tList, 8, []byte{tStruct, 0, 0, 0, 0})}
	})
}

func jaegerProto(name string, all ...ids) []byte {
	var batch []byte
	for _, i := range all {
		trace, span := i.bytes()
		batch = append(batch, protoBytes(1, bytes.Join([][]byte{protoBytes(1, trace), protoBytes(2, span), protoBytes(3, []byte(name))}, nil))...)
	}
	return protoBytes(1, append(batch, protoBytes(2, protoBytes(1, []byte("s")))...))
}

// protocol is one way to send spans.
type protocol struct {
	name, url, media, method string
	encode                   func(name string, all ...ids) []byte
}

var protocols = []protocol{
	{"OTLP by gRPC", "otlp.grpc", "", otlpExport, otlpProto},
	{"OTLP by HTTP", "otlp.http/v1/traces", protobuf, "", otlpProto},
	{"OTLP by HTTP, JSON", "otlp.http/v1/traces", json, "", otlpJSON},
	{"Jaeger by gRPC", "jaeger.grpc", "", jaegerExport, jaegerProto},
	{"Jaeger by HTTP", "jaeger.http/api/traces", thrift1, "", jaegerThrift},
	{"Zipkin 2, JSON", "zipkin/api/v2/spans", json, "", zipkinJSON},
	{"Zipkin 2, protobuf", "zipkin/api/v2/spans", protobuf, "", zipkinProto},
	{"Zipkin 1, Thrift", "zipkin/api/v1/spans", thrift1, "", zipkinThrift},
}

// send returns the answer: a status of HTTP, or a code of gRPC.
func (p *peers) send(t *testing.T, to protocol, body []byte) (code int, answer []byte, problem string) {
	t.Helper()
	if to.method == "" {
		code, text := p.post(t, to.url, to.media, "", body)
		return code, []byte(text), text
	}
	var b bytesOf
	err := p.dial(t, to.url).Invoke(t.Context(), to.method, body, &b, grpc.ForceCodecV2(answering{}))
	return int(status.Code(err)), b, status.Convert(err).Message() //nolint:gosec // a small number
}

// answering is raw, whose answers are read.
type answering struct{ raw }

type bytesOf []byte

func (answering) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*bytesOf) = data.Materialize()
	return nil
}

// rejected is the counter.
func (p *peers) rejected(t *testing.T) (n int64) {
	t.Helper()
	if m, err := p.telemetry.GetMetric("tare_receiver_rejected_spans"); err == nil {
		for _, d := range m.Data.(metricdata.Sum[int64]).DataPoints {
			n += d.Value
		}
	}
	return n
}

// Spans whose ids are zero: every protocol tells its sender in its own way, the others of the request are accepted, and
// they are counted.
func TestZeroIDs(t *testing.T) {
	p := start(t)
	for _, to := range protocols {
		t.Run(to.name, func(t *testing.T) {
			for _, c := range []struct {
				good, bad int
				all       []ids
			}{
				{1, 0, []ids{{1, 1}}},
				{1, 1, []ids{{1, 2}, {1, 0}}},
				{1, 2, []ids{{0, 1}, {1, 3}, {0, 0}}},
				{0, 2, []ids{{1, 0}, {0, 1}}},
			} {
				before, counted, refused := p.sink.SpanCount(), p.rejected(t), p.refusedFor(t, "malformed")
				code, answer, problem := p.send(t, to, to.encode("name", c.all...))
				accepted, told := p.sink.SpanCount()-before, p.rejected(t)-counted
				if to.name == "Zipkin 2, JSON" && c.bad > 0 { // its decoder refuses the whole request, and says why
					if code != http.StatusBadRequest || accepted != 0 || problem == "" || p.refusedFor(t, "malformed")-refused != 1 {
						t.Errorf("%v: %d %q, %d accepted", c.all, code, problem, accepted)
					}
					continue
				}
				if accepted != c.good || told != int64(c.bad) {
					t.Errorf("%v: %d accepted, %d counted: %d %s", c.all, accepted, told, code, problem)
				}
				says := strings.Contains(problem, fmt.Sprintf("%d of %d spans were rejected", c.bad, c.good+c.bad))
				switch {
				case strings.HasPrefix(to.name, "OTLP"):
					var r = ptraceotlp.NewExportResponse()
					var err error
					if to.media == json {
						err = r.UnmarshalJSON(answer)
					} else {
						err = r.UnmarshalProto(answer)
					}
					if err != nil || code != 0 && code != http.StatusOK || r.PartialSuccess().RejectedSpans() != int64(c.bad) ||
						(r.PartialSuccess().ErrorMessage() == "") != (c.bad == 0) {
						t.Errorf("%v: %d %q, %v, %d rejected: %q", c.all, code, answer, err, r.PartialSuccess().RejectedSpans(), r.PartialSuccess().ErrorMessage())
					}
				case to.method != "": // has no field for it
					if c.good > 0 && code != int(codes.OK) || c.good == 0 && (code != int(codes.InvalidArgument) || !says) {
						t.Errorf("%v: %d %q", c.all, code, problem)
					}
				case c.good > 0 && code != http.StatusAccepted || c.good == 0 && code != http.StatusBadRequest || says != (c.bad > 0):
					t.Errorf("%v: %d %q", c.all, code, problem)
				}
			}
		})
	}
}

// Names of 900 KB arrive with at most 1 KiB by every protocol, and two that begin alike stay different.
func TestLongNames(t *testing.T) {
	p := start(t)
	for _, to := range protocols {
		t.Run(to.name, func(t *testing.T) {
			p.sink.Reset()
			seen := map[string]bool{}
			for _, end := range []string{"a", "b"} {
				if code, _, problem := p.send(t, to, to.encode(strings.Repeat("x", 900_000)+end, ids{1, 1})); code != 0 && code/100 != 2 {
					t.Fatalf("%d %s", code, problem)
				}
			}
			for _, td := range p.sink.AllTraces() {
				name := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name()
				if _, mark := text.Split(name); len(name) > text.MaxName || mark == "" {
					t.Errorf("a name of %d bytes", len(name))
				}
				seen[name] = true
			}
			if len(seen) != 2 {
				t.Errorf("%d different names, want 2", len(seen))
			}
		})
	}
}

// From a broker nobody can be told: the spans are counted, and the others arrive, cut.
func TestKafkaIsLimited(t *testing.T) {
	body := otlpProto(strings.Repeat("x", 400_000), ids{1, 0}, ids{1, 1}) // a broker takes 1 MB
	p := fromKafka(t, limit.Receivers(Kafka(func(l *zap.Logger) *zap.Logger { return l })), "otlp_proto", otlpProto("n", ids{}), body)
	testkit.Until(t, time.Minute, "the span has come", func() bool { return p.sink.SpanCount() > 0 })
	name := p.sink.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name()
	if n := p.rejected(t); n != 2 || len(name) > text.MaxName || p.sink.SpanCount() != 1 {
		t.Errorf("%d rejected, want 2; %d came, with a name of %d bytes", n, p.sink.SpanCount(), len(name))
	}
}
