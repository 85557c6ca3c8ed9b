package diagnose

import (
	"bytes"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Both forms are told apart by their first bytes, also where a message of protobuf
// begins like an object: its first resource has as many bytes as a brace is worth.
func TestFormsAreToldApart(t *testing.T) {
	braces := 0
	for pad := range 200 {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", strings.Repeat("x", pad))
		rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("get")
		protobuf, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		if err != nil {
			t.Fatal(err)
		}
		json, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(bytes.TrimSpace(protobuf), []byte("{")) {
			braces++
		}
		for _, message := range [][]byte{protobuf, json, append([]byte(" \n"), json...)} {
			spans := 0
			err := read(bytes.NewReader(message), func(td ptrace.Traces) error {
				spans += td.SpanCount()
				return nil
			})
			if err != nil || spans != 1 {
				t.Errorf("%q…: %d spans, %v", message[:8], spans, err)
			}
		}
	}
	if braces == 0 {
		t.Error("no message of protobuf began with a brace")
	}
}
