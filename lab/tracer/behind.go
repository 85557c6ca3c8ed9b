package tracer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-trace/tare/workloads"
)

//go:embed behind.yaml
var behindConfig []byte

// behind is a collector that an agent sends to: it joins traces that no tag
// connects, makes spans of message events, and passes whole traces to the sink.
type behind struct {
	process *workloads.Process
	otlp    string // URL that the agent sends to
	metrics string // URL
	client  *http.Client
	cut     <-chan struct{} // closed when nobody wants the rest any more
}

// startBehind returns when the collector takes spans; it ends with the group.
func startBehind(ctx context.Context, group *workloads.Group, t Target, client *http.Client) (*behind, error) {
	listen, err := workloads.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := workloads.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(metrics)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(group.Dir, "collector.yaml")
	if err := os.WriteFile(config, behindConfig, 0o600); err != nil {
		return nil, err
	}
	b := &behind{otlp: "http://" + listen, metrics: "http://" + metrics + "/metrics", client: client, cut: ctx.Done()}
	env := []string{"LISTEN=" + listen, "OTLP=" + t.Sink.OTLP, "METRICS_PORT=" + port}
	// It stands for one on another machine: services that want all CPUs do not starve it.
	argv := []string{"nice", "-n", "-10", t.Tare, "collector", "--config", config}
	if b.process, err = group.Start("collector", argv, env); err != nil {
		return nil, err
	}
	return b, b.process.Await(ctx, b.ready, t.Say)
}

// ready is nil when the collector listens for spans, which it does after all else.
func (b *behind) ready(ctx context.Context) error {
	families, err := scrape(ctx, b.client, b.metrics)
	if err != nil {
		return err
	}
	for _, name := range []string{metricPending, metricBuilt, metricJoins, metricDropped} {
		if families[name] == nil {
			return fmt.Errorf("the collector has no %s", name)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.otlp, nil)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// What tare_tracer tells of itself.
const (
	metricPending = "tare_tracer_pending_spans"
	metricBuilt   = "tare_tracer_built_spans_total"
	metricJoins   = "tare_tracer_joins_total"         // outcome
	metricDropped = "tare_tracer_dropped_spans_total" // reason
)

// read adds to what the agent says of itself.
func (b *behind) read(ctx context.Context, r *Reading) error {
	families, err := scrape(ctx, b.client, b.metrics)
	if err != nil {
		return fmt.Errorf("the metrics of the collector behind the agent: %w", err)
	}
	lost := map[string]float64{
		"refused": total(families[metricRefused]), "send_failed": total(families[metricUnsent]),
		"enqueue_failed": total(families[metricUnqueued]),
	}
	for reason, n := range byLabel(families[metricDropped], "reason") {
		lost[reason] += n
	}
	for reason, n := range lost {
		r.Lost["collector: "+reason] = uint64(n)
		r.Dropped += uint64(n)
	}
	r.Config["collector.accepted_spans"] = total(families[metricAccepted])
	r.Config["collector.built_spans"] = total(families[metricBuilt])
	for outcome, n := range byLabel(families[metricJoins], "outcome") {
		r.Config["collector.joins."+outcome] = n
	}
	return nil
}

// drain waits until no span waits for its other half or the rest of its trace: a
// collector that is stopped emits such traces as they are. The agent has sent all.
func (b *behind) drain() error {
	deadline := time.Now().Add(settled)
	for {
		families, err := scrape(context.Background(), b.client, b.metrics)
		if err != nil {
			return errors.Join(err, b.alive())
		}
		waiting := total(families[metricPending])
		switch {
		case waiting == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the collector behind the agent still held %.0f spans after %v", waiting, settled)
		}
		select {
		case <-b.cut:
			return nil
		case <-b.process.Done():
			return b.alive()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *behind) alive() error {
	select {
	case <-b.process.Done():
		return b.process.Exited()
	default:
		return nil
	}
}
