package otlpwire_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tare-trace/tare/otel/lean/internal/otlpwire"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	return data
}

func partial(rejected int64, message string) *coltracepb.ExportTraceServiceResponse {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

func TestDecodeResponse(t *testing.T) {
	for name, test := range map[string]struct {
		response *coltracepb.ExportTraceServiceResponse
		want     otlpwire.PartialSuccess
	}{
		"full success":  {&coltracepb.ExportTraceServiceResponse{}, otlpwire.PartialSuccess{}},
		"empty partial": {partial(0, ""), otlpwire.PartialSuccess{}},
		"partial":       {partial(3, "too old"), otlpwire.PartialSuccess{Rejected: 3, Message: "too old"}},
		"warning":       {partial(0, "deprecated"), otlpwire.PartialSuccess{Message: "deprecated"}},
		"more than all": {partial(math.MaxInt64, ""), otlpwire.PartialSuccess{Rejected: 10}},
		"negative":      {partial(-1, ""), otlpwire.PartialSuccess{}},
		"log injection": {partial(1, "a\nb\x1b[31m"), otlpwire.PartialSuccess{Rejected: 1, Message: "a b [31m"}},
		"long message":  {partial(1, strings.Repeat("é", 2000)), otlpwire.PartialSuccess{Rejected: 1, Message: strings.Repeat("é", 512) + "…"}},
		"odd cut":       {partial(1, "x"+strings.Repeat("é", 2000)), otlpwire.PartialSuccess{Rejected: 1, Message: "x" + strings.Repeat("é", 511) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := otlpwire.DecodeResponse(marshal(t, test.response), 10)
			if err != nil || got != test.want {
				t.Errorf("protobuf: %+v, %v, want %+v", got, err, test.want)
			}
			text, err := protojson.Marshal(test.response)
			require.NoError(t, err)
			if got, err = otlpwire.DecodeResponseJSON(text, 10); err != nil || got != test.want {
				t.Errorf("JSON %s: %+v, %v, want %+v", text, got, err, test.want)
			}
		})
	}
	if got, err := otlpwire.DecodeResponseJSON([]byte(`{"partialSuccess":{"rejectedSpans":2}}`), 10); err != nil || got.Rejected != 2 {
		t.Errorf("a number in JSON: %+v, %v", got, err)
	}
	if _, err := otlpwire.DecodeResponse([]byte("<html>"), 10); err == nil {
		t.Error("a web page is taken for a response")
	}
}

func TestPartialSuccessSaysWhat(t *testing.T) {
	for want, p := range map[string]otlpwire.PartialSuccess{
		"OTLP receiver warns: old":                                {Message: "old"},
		"OTLP partial success: 2 spans rejected: full":            {Rejected: 2, Message: "full"},
		"OTLP partial success: 2 spans rejected without a reason": {Rejected: 2},
	} {
		assert.Equal(t, want, p.Error())
	}
}

func TestDecodeStatus(t *testing.T) {
	got, err := otlpwire.DecodeStatus(marshal(t, &statuspb.Status{Code: 3, Message: "bad span id"}))
	if err != nil || got != "bad span id" {
		t.Errorf("%q, %v", got, err)
	}
	got, err = otlpwire.DecodeStatusJSON([]byte(`{"code":3,"message":"bad span id","details":[{}]}`))
	if err != nil || got != "bad span id" {
		t.Errorf("JSON: %q, %v", got, err)
	}
}

func TestDecodeRetryInfo(t *testing.T) {
	for name, test := range map[string]struct {
		delay *durationpb.Duration
		want  time.Duration
	}{
		"none":     {nil, 0},
		"1.5 s":    {durationpb.New(1500 * time.Millisecond), 1500 * time.Millisecond},
		"negative": {durationpb.New(-1500 * time.Millisecond), 0},
		"-1 ns":    {durationpb.New(-1), 0},
		"too long": {&durationpb.Duration{Seconds: math.MaxInt64}, math.MaxInt64},
	} {
		got, err := otlpwire.DecodeRetryInfo(marshal(t, &errdetails.RetryInfo{RetryDelay: test.delay}))
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
	if !otlpwire.IsRetryInfo("type.googleapis.com/google.rpc.RetryInfo") || otlpwire.IsRetryInfo("type.googleapis.com/google.rpc.DebugInfo") {
		t.Error("IsRetryInfo does not know its type")
	}
}

// The generated code of proto/otlp is the judge: what it accepts, we accept,
// with the same content. We may accept more (it checks UTF-8).
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(marshal(f, partial(3, "too old")))
	f.Add(append(marshal(f, partial(3, "a")), marshal(f, partial(-4, "b"))...))
	f.Add(marshal(f, &statuspb.Status{Code: 8, Message: "m"}))
	f.Add(marshal(f, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))
	f.Add([]byte{0x0b, 0x08, 0x01, 0x0c})       // a group
	f.Add([]byte{0x08, 0x80, 0x80})             // an unfinished number
	f.Add([]byte{0x0a, 0x02, 0x0a, 0x05, 0x08}) // lengths that lie
	f.Fuzz(func(t *testing.T, data []byte) {
		const spans = math.MaxInt
		got, err := otlpwire.DecodeResponse(data, spans)
		if !utf8.ValidString(got.Message) || got.Rejected < 0 {
			t.Fatalf("%+v", got)
		}
		var want coltracepb.ExportTraceServiceResponse
		if proto.Unmarshal(data, &want) == nil {
			p := want.GetPartialSuccess()
			if err != nil || int64(got.Rejected) != max(0, p.GetRejectedSpans()) || got.Message != otlpwire.Text([]byte(p.GetErrorMessage())) {
				t.Fatalf("%+v, %v, want %v", got, err, p)
			}
		}
		message, err := otlpwire.DecodeStatus(data)
		var status statuspb.Status
		if proto.Unmarshal(data, &status) == nil && (err != nil || message != otlpwire.Text([]byte(status.GetMessage()))) {
			t.Fatalf("%q, %v, want %v", message, err, &status)
		}
		delay, err := otlpwire.DecodeRetryInfo(data)
		var info errdetails.RetryInfo
		if proto.Unmarshal(data, &info) == nil && err != nil || delay < 0 {
			t.Fatalf("%v, %v, want %v", delay, err, &info)
		}
		if d := info.GetRetryDelay(); d.IsValid() && proto.Unmarshal(data, &info) == nil && delay != max(0, d.AsDuration()) &&
			d.GetSeconds() < math.MaxInt64/int64(time.Second)-2 {
			t.Fatalf("%v, want %v", delay, d.AsDuration())
		}
		_, _ = otlpwire.DecodeResponseJSON(data, spans)
		_, _ = otlpwire.DecodeStatusJSON(data)
	})
}
