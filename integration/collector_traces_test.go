package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-trace/tare/internal/testkit"
)

// someTraces are whole traces of three services with everything that a span can
// carry. Ids depend on the seed, so that no two batches share one.
func someTraces(seed uint64, traces, perTrace int) ptrace.Traces {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same spans each time
	td := ptrace.NewTraces()
	var services []ptrace.SpanSlice
	for _, name := range []string{"shop", "stock", "bill"} {
		rs := td.ResourceSpans().AppendEmpty()
		rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.40.0")
		rs.Resource().Attributes().PutStr("service.name", name)
		rs.Resource().Attributes().PutStr("service.version", "1")
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("generator")
		ss.Scope().SetVersion("1.2.3")
		services = append(services, ss.Spans())
	}
	start := time.Now().Add(-time.Minute)
	for n := range traces {
		var trace pcommon.TraceID
		binary.BigEndian.PutUint64(trace[:], seed)
		binary.BigEndian.PutUint64(trace[8:], uint64(n)+1)
		at := start.Add(time.Duration(n) * time.Millisecond)
		for i := range perTrace {
			sp := services[i%len(services)].AppendEmpty()
			sp.SetTraceID(trace)
			sp.SetSpanID(spanID(i + 1))
			if i > 0 {
				sp.SetParentSpanID(spanID(random.IntN(i) + 1))
			}
			sp.SetName(fmt.Sprintf("operation %d", i%7))
			sp.SetKind(ptrace.SpanKindInternal)
			if i == 0 {
				sp.SetKind(ptrace.SpanKindServer)
			}
			sp.SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(i) * time.Microsecond)))
			sp.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(2*perTrace-i) * time.Microsecond)))
			sp.TraceState().FromRaw("ot=th:8")
			sp.SetFlags(0x101)
			sp.Attributes().PutStr("http.request.method", "GET")
			sp.Attributes().PutInt("http.response.status_code", int64(200+i%2*300))
			sp.Attributes().PutDouble("load", random.Float64())
			sp.Attributes().PutBool("cached", i%2 == 0)
			sp.Attributes().PutEmptyBytes("digest").FromRaw([]byte{0, 1, 255})
			sp.Attributes().PutEmptySlice("tags").AppendEmpty().SetStr("größer")
			sp.Attributes().PutEmptyMap("basket").PutInt("items", int64(i))
			if i%5 == 0 {
				e := sp.Events().AppendEmpty()
				e.SetName("exception")
				e.SetTimestamp(sp.StartTimestamp())
				e.Attributes().PutStr("exception.message", "no\nstock")
				e.SetDroppedAttributesCount(1)
				sp.Status().SetCode(ptrace.StatusCodeError)
				sp.Status().SetMessage("no stock")
				l := sp.Links().AppendEmpty()
				l.SetTraceID(trace)
				l.SetSpanID(spanID(1))
				l.Attributes().PutStr("why", "retry")
			}
		}
	}
	return td
}

func spanID(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// dialOTLP makes a client of OTLP/gRPC; nil credentials are none.
func dialOTLP(t *testing.T, address string, creds credentials.TransportCredentials) ptraceotlp.GRPCClient {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return ptraceotlp.NewGRPCClient(conn)
}

func export(ctx context.Context, c ptraceotlp.GRPCClient, td ptrace.Traces) error {
	ctx, cancel := context.WithTimeout(ctx, testkit.Patient(30*time.Second))
	defer cancel()
	_, err := c.Export(ctx, ptraceotlp.NewExportRequestFromTraces(td))
	return err
}

// deliver sends each piece and has it acknowledged; it returns the spans.
func deliver(t *testing.T, c ptraceotlp.GRPCClient, tds ...ptrace.Traces) map[spanKey][]byte {
	t.Helper()
	sent := map[spanKey][]byte{}
	for _, td := range tds {
		for key, b := range split(td) {
			sent[key] = b
		}
		if err := export(t.Context(), c, td); err != nil {
			t.Fatal(err)
		}
	}
	return sent
}

// noise is n bytes that do not compress.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}
