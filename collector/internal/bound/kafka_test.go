package bound

import (
	"context"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
)

// What a broker has is read by whoever comes next: messages that must not be decoded are counted, and those behind
// them arrive.
func TestKafka(t *testing.T) {
	zipkin := []byte{tStruct, 0, 0, 0, 0} // no span
	many := []byte{tStruct, 6, 0, 0, 0}   // 100 Mi spans, of which none follows
	for _, c := range []struct {
		encoding, reason string
		bad, good        []byte
	}{
		{"otlp_proto", "depth", nested(100_000), goodSpan},
		{"otlp_json", "depth", nestedJSON(9000), []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a"}]}]}]}`)},
		{"zipkin_thrift", "malformed", many, zipkin},
	} {
		t.Run(c.encoding, func(t *testing.T) {
			p := fromKafka(t, Kafka(func(l *zap.Logger) *zap.Logger { return l }), c.encoding, c.bad, c.good)
			for end := time.Now().Add(time.Minute); len(p.sink.AllTraces()) == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the message behind the refused one has not come")
				}
			}
			if n := len(p.sink.AllTraces()); n != 1 {
				t.Errorf("%d messages came, want 1", n)
			}
			if n := p.refusedFor(t, c.reason); n != 1 {
				t.Errorf("%d messages are counted as refused for %s, want 1", n, c.reason)
			}
		})
	}
}

// fromKafka starts a receiver, by its factory, that reads these messages from a broker.
func fromKafka(t *testing.T, f receiver.Factory, encoding string, messages ...[]byte) *peers {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "spans"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close) // after the receiver
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("spans"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, m := range messages {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: m}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	p := &peers{sink: new(consumertest.TracesSink), telemetry: componenttest.NewTelemetry()}
	t.Cleanup(func() { _ = p.telemetry.Shutdown(context.WithoutCancel(t.Context())) })
	cfg := f.CreateDefaultConfig().(*kafkareceiver.Config)
	cfg.ClientConfig.Brokers, cfg.ConsumerConfig.InitialOffset = cluster.ListenAddrs(), "earliest"
	cfg.Traces.Topics, cfg.Traces.Encoding = []string{"spans"}, encoding
	p.run(t, f, cfg)
	return p
}
