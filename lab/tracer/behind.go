package tracer

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/scrape"
	"github.com/tare-trace/tare/workloads"
)

//go:embed behind.yaml
var behindConfig []byte

//go:embed behind-store.yaml
var behindStore []byte

// Behind is a collector that the spans of a tracer pass, and a part of the tracer: it joins
// traces that no tag connects, makes spans of message events, and passes whole traces to
// the sink, all of them or those that its tare_keep keeps, as other processors of it leave them.
type Behind struct {
	*Backend
	group   *workloads.Group
	process *workloads.Process
	tare    string   // the binary
	configs []string // flags that name its configuration
	env     []string
	listen  string          // host:port that spans are sent to
	keeps   bool            // it has tare_keep
	stores  bool            // it has tare_store
	cut     <-chan struct{} // closed when nobody wants the rest any more

	once sync.Once
	err  error // of Stop

	// Of the whole run; -1: not known.
	sent   float64 // spans, as it says when it holds none any more
	stored float64 // bytes of the store, when it has been stopped; an empty one has next to none
}

// StartBehind starts the collector that the variant asks for, and returns when it takes
// spans. The workload does not run yet: its environment says where spans go, which is
// what Through makes of the sink's placeholders.
func StartBehind(ctx context.Context, t Target) (*Behind, error) {
	group, err := workloads.NewGroup("tare-behind")
	if err != nil {
		return nil, err
	}
	b := &Behind{group: group, keeps: t.Variant.Tracer.Keep != nil, stores: t.Variant.Tracer.Store, cut: ctx.Done(), tare: t.Tare, sent: -1, stored: -1}
	if err := b.start(ctx, t); err != nil {
		return nil, errors.Join(err, group.Stop())
	}
	return b, nil
}

func (b *Behind) start(ctx context.Context, t Target) error {
	// Services in a network namespace of their own reach it where they would reach the sink.
	host, _, err := net.SplitHostPort(t.Sink.OTLPAddr)
	if err != nil {
		return err
	}
	if b.listen, err = workloads.FreeAddressOf(host); err != nil {
		return err
	}
	metrics, err := workloads.FreeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(metrics)
	if err != nil {
		return err
	}
	if b.configs, err = b.configure(t.Variant.Tracer); err != nil {
		return err
	}
	b.env = []string{"LISTEN=" + b.listen, "OTLP=" + t.Sink.OTLP, "METRICS_PORT=" + port, "RATE=" + experiment.FormatRate(t.Variant.Rate), "STORE=" + b.directory()}
	b.Backend = newBackend("http://"+metrics+"/metrics", func() []int { return []int{b.process.PID()} })
	return b.launch(ctx, t.Say)
}

// launch starts the process, and waits until it takes spans.
func (b *Behind) launch(ctx context.Context, say func(string, ...any)) (err error) {
	// It stands for one on another machine: services that want all CPUs do not starve it. The
	// link is nobody else's: no TLS.
	argv := append([]string{"nice", "-n", "-10", b.tare, "collector", "--plaintext"}, b.configs...)
	if b.process, err = b.group.Start("collector", argv, b.env); err != nil {
		return err
	}
	return b.process.Await(ctx, b.ready, say)
}

// directory is where it stores.
func (b *Behind) directory() string { return filepath.Join(b.group.Dir, "store") }

// configure writes the configuration, and returns the flags that name it. Of
// configurations that follow each other a collector takes lists from the last one that
// has them.
func (b *Behind) configure(t *experiment.Tracer) (flags []string, err error) {
	files := map[string][]byte{"collector.yaml": behindConfig}
	added := t.Processors
	if b.keeps {
		added = append([]map[string]any{{"tare_keep": t.Keep}}, added...)
	}
	if len(added) > 0 {
		order, settings := []string{"tare_tracer"}, map[string]any{}
		for _, one := range added {
			for name, of := range one {
				order, settings[name] = append(order, name), of
			}
		}
		more, err := yaml.Marshal(map[string]any{
			"processors": settings,
			"service":    map[string]any{"pipelines": map[string]any{"traces": map[string]any{"processors": order}}},
		})
		if err != nil {
			return nil, err
		}
		// A collector takes a variable's value for a number if it reads as one.
		files["more.yaml"] = bytes.ReplaceAll(more, []byte("{rate}"), []byte("${env:RATE}"))
	}
	if b.stores {
		files["store.yaml"] = behindStore
	}
	for _, name := range slices.Sorted(maps.Keys(files)) { // collector.yaml is the first
		path := filepath.Join(b.group.Dir, name)
		if err := os.WriteFile(path, files[name], 0o600); err != nil {
			return nil, err
		}
		flags = append(flags, "--config", path)
	}
	return flags, nil
}

// Through are the sink's placeholders for what sends its spans through the collector.
func (b *Behind) Through(sink experiment.Placeholders) experiment.Placeholders {
	sink.OTLP, sink.OTLPAddr = "http://"+b.listen, b.listen
	return sink
}

// ready is nil when the collector listens for spans, which it does after all else.
func (b *Behind) ready(ctx context.Context) error {
	families, err := b.ask(ctx)
	if err != nil {
		return err
	}
	names := []string{metricPending, metricBuilt, metricJoins, metricDropped}
	if b.keeps {
		names = append(names, metricKeepShare)
	}
	for _, name := range names {
		if families[name] == nil {
			return fmt.Errorf("the collector has no %s", name)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.listen, nil)
	if err != nil {
		return err
	}
	resp, err := scrape.Once.Do(req)
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

// metricKeepShare is the probability that tare_keep says it has.
const metricKeepShare = "tare_keep_share_probability"

// Read adds to what the tracer before it says of itself. Where the collector decides which
// traces are kept, the tracer's rate is not the one in force, and nobody knows that one
// before the traces are there.
func (b *Behind) Read(ctx context.Context, r *Reading) error {
	families, err := b.ask(ctx)
	if err != nil {
		return fmt.Errorf("the metrics of the collector behind the tracer: %w", err)
	}
	lost := lostBy(families)
	for reason, n := range families.ByLabel(metricDropped, "reason") {
		lost[reason] += uint64(n)
	}
	if r.Lost == nil {
		r.Lost = map[string]uint64{}
	}
	for reason, n := range lost {
		r.Lost["collector: "+reason] = n
		r.Dropped += n
	}
	r.Config["collector.accepted_spans"] = families.Total(metricAccepted)
	r.Config["collector.built_spans"] = families.Total(metricBuilt)
	for outcome, n := range families.ByLabel(metricJoins, "outcome") {
		r.Config["collector.joins."+outcome] = n
	}
	if b.keeps {
		r.Rate, r.HasRate = 0, false
		r.Config["collector.keep.share"] = families.Total(metricKeepShare)
	}
	return nil
}

// drain waits until no span waits for its other half or the rest of its trace, nor for the
// sink: a collector that is stopped emits such traces as they are. The tracer has sent all.
func (b *Behind) drain() error {
	deadline := time.Now().Add(settled)
	before := -1.0 // what it had sent when it held nothing; a span may be on its way to the queue then
	for {
		families, err := b.ask(context.Background())
		if err != nil {
			return errors.Join(err, b.Alive())
		}
		waiting, sent := families.Total(metricPending)+families.Total(metricQueue), families.ByLabel(metricSent, "exporter")["otlp_http"]
		switch {
		case waiting > 0:
			before = -1
		case sent == before:
			b.sent = sent
			return nil
		default:
			before = sent
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the collector behind the tracer still held %.0f spans after %v", waiting, settled)
		}
		select {
		case <-b.cut:
			return nil
		case <-b.process.Done():
			return b.Alive()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Arrived holds what the collector said that it sent, before it was stopped, against what the
// sink received. A difference is an error: what it tells of itself cannot be believed, or spans
// were lost, or sent twice, behind it.
func (b *Behind) Arrived(spans int, config map[string]any) error {
	if b.sent < 0 {
		return nil
	}
	config["collector.sent_spans"] = b.sent
	if b.sent != float64(spans) {
		return fmt.Errorf("the collector behind the tracer says that it sent %.0f spans (%s), and %d arrived", b.sent, metricSent, spans)
	}
	return nil
}

// Alive is an error if the collector has ended.
func (b *Behind) Alive() error {
	select {
	case <-b.process.Done():
		return b.process.Exited()
	default:
		return nil
	}
}

// Stored are the bytes that what it was sent takes on the disk; false: it does not store, or was cut off.
func (b *Behind) Stored() (bytes float64, known bool) { return b.stored, b.stored >= 0 }

// measure starts the collector again, which makes tables of its store's log of what is written
// next, stops it, and asks how large the store is, and whether all spans are in it.
func (b *Behind) measure() error {
	ctx, cancel := context.WithTimeout(context.Background(), settled)
	defer cancel()
	if err := errors.Join(b.process.Stop(), b.launch(ctx, nil), b.process.Stop()); err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, b.tare, "store", "info", "--json", b.directory()).Output()
	if err != nil {
		return fmt.Errorf("tare store info: %w", err)
	}
	var info struct{ Bytes, Spans float64 }
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("tare store info: %w", err)
	}
	if info.Spans != b.sent {
		return fmt.Errorf("the collector behind the tracer sent %.0f spans, and its store has %.0f", b.sent, info.Spans)
	}
	b.stored = info.Bytes
	return nil
}

// Stop waits until the collector has passed on what it holds, and ends it: the tracer
// before it has been stopped. It may be called more than once.
func (b *Behind) Stop() error {
	b.once.Do(func() {
		if b.process != nil {
			b.err = b.drain()
		}
		if b.stores && b.sent >= 0 && b.err == nil {
			b.err = b.measure()
		}
		b.err = errors.Join(b.err, b.group.Stop())
	})
	return b.err
}
