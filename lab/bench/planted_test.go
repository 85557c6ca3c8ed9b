package bench

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/sink"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads/planted"
)

// Of ten requests five have a trace, and of their secrets one has been removed, with a decoy.
func TestPlantedValuesAreCounted(t *testing.T) {
	const first, next = 40, 50
	places, decoys := len(planted.Places), 6
	for driver, within := range map[string]bool{"env": true, "tare": false} {
		s, err := sink.New(sink.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		s.Keep(true)
		size := 0
		for n := uint64(first); n < next; n += 2 {
			path, _, _ := strings.Cut(string(planted.AppendPath(nil, n)), "?")
			span := &trace.Span{Attributes: []*common.KeyValue{attribute("url.path", path)}}
			for _, r := range planted.Records(n) {
				if n == first && r.Place == planted.Event { // both of its values
					continue
				}
				span.Attributes = append(span.Attributes, attribute(r.Key, r.Text))
			}
			for _, p := range planted.Places {
				if n != first || p != planted.Event {
					size += len(planted.Of(n).Secret(p).Core)
				}
			}
			send(t, s, span)
		}
		r := &run{
			stage: &Stage{sink: s, next: next}, first: first, rec: &record.Run{Values: map[string]float64{}},
			job: Job{Variant: experiment.Variant{Tracer: &experiment.Tracer{Driver: driver}}},
		}
		if r.tracer, err = tracer.Find(r.job.Variant.Tracer); err != nil {
			t.Fatal(err)
		}
		require.NoError(t, r.countPlanted(next-first))
		v := r.rec.Values
		if want := float64(5*places-1) / float64(5*places); v[record.SecretsStored] != want || v[record.PersonalData] != float64(size)/(next-first) {
			t.Errorf("%s: %v; want %v stored, %d bytes", driver, v, want, size)
		}
		changed, ok := v[record.DecoysChanged]
		if want := 1 - float64(5*decoys-1)/float64(5*decoys); ok != within || within && changed != want || (r.rec.Planted.Decoys != nil) != within {
			t.Errorf("%s: decoys changed %v, want %v", driver, changed, want)
		}
		assert.Equal(t, (planted.Count{Planted: 5, Stored: 4}), r.rec.Planted.Places[string(planted.Event)], "%s: of exceptions", driver)
	}
}

// Where no request was sampled, nothing is known of what is removed, and nothing is stored.
func TestNoTraceHoldsNoSecret(t *testing.T) {
	s, err := sink.New(sink.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r := &run{stage: &Stage{sink: s, next: 9}, first: 3, rec: &record.Run{Values: map[string]float64{}}}
	if err := r.countPlanted(6); err != nil || len(r.rec.Values) != 1 || r.rec.Values[record.PersonalData] != 0 || r.rec.Planted != nil {
		t.Errorf("%+v, %v", r.rec, err)
	}
}

func attribute(key, text string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}}
}

func send(t *testing.T, s *sink.Sink, span *trace.Span) {
	t.Helper()
	body, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{ScopeSpans: []*trace.ScopeSpans{{Spans: []*trace.Span{span}}}}}})
	require.NoError(t, err)
	resp, err := http.Post(s.Endpoint()+"/v1/traces", "application/x-protobuf", bytes.NewReader(body)) //nolint:noctx // the sink is ours
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}
