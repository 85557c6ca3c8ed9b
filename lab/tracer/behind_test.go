package tracer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/workloads"
)

// Of the collector behind a tracer, tare_tracer comes first, then tare_keep, then what the
// experiment adds, in its order.
func TestProcessorsOfTheCollectorBehind(t *testing.T) {
	for _, c := range []struct {
		tracer experiment.Tracer
		files  int
		order  string
	}{
		{experiment.Tracer{}, 1, ""},
		{experiment.Tracer{Keep: map[string]any{"share": map[string]any{"probability": "{rate}"}}}, 2, "tare_tracer tare_keep"},
		{experiment.Tracer{Processors: []map[string]any{{"redaction": map[string]any{"allow_all_keys": true}}, {"batch": nil}}}, 2, "tare_tracer redaction batch"},
		{experiment.Tracer{Keep: map[string]any{}, Processors: []map[string]any{{"tare_redact": map[string]any{}}}}, 2, "tare_tracer tare_keep tare_redact"},
	} {
		group, err := workloads.NewGroup("behind-test")
		require.NoError(t, err)
		t.Cleanup(func() { _ = group.Stop() })
		b := &Behind{group: group, keeps: c.tracer.Keep != nil}
		flags, err := b.configure(&c.tracer)
		if err != nil || len(flags) != 2*c.files {
			t.Fatalf("%v, %v", flags, err)
		}
		if c.files == 1 {
			continue
		}
		text, err := os.ReadFile(flags[3])
		require.NoError(t, err)
		var file struct {
			Processors map[string]any
			Service    struct {
				Pipelines struct{ Traces struct{ Processors []string } }
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &file))
		order := file.Service.Pipelines.Traces.Processors
		if got := strings.Join(order, " "); got != c.order || len(file.Processors) != len(order)-1 || strings.Contains(string(text), "{rate}") {
			t.Errorf("%s\n%s", got, text)
		}
	}
}

// What the collector says that it sent has to be what arrived.
func TestArrived(t *testing.T) {
	for _, c := range []struct {
		sent float64
		want string
	}{{3, ""}, {2, "sent 2 spans"}, {4, "sent 4 spans"}, {-1, ""}} {
		config := map[string]any{}
		err := (&Behind{sent: c.sent}).Arrived(3, config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("sent %v, 3 arrived: %v", c.sent, err)
		}
		if _, known := config["collector.sent_spans"]; known != (c.sent >= 0) {
			t.Errorf("sent %v: %v", c.sent, config)
		}
	}
}
