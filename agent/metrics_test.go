package agent

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/platform"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// A counter of the kernel side that is not published would be a loss in
// silence.
func TestEveryKernelCounterIsPublished(t *testing.T) {
	published := map[bpf.Counter]int{}
	for _, k := range kernelCounters {
		published[k.counter]++
	}
	for c := bpf.Counter(0); c < bpf.TareCounterTARE_C_MAX; c++ {
		if published[c] != 1 {
			t.Errorf("counter %d of event.h is published %d times", c, published[c])
		}
	}
}

// Each reason of a loss, and of a call that is not linked, is explained by docs/agent.md or docs/linking.md, and on the page.
func TestEveryReasonIsExplained(t *testing.T) {
	script, err := os.ReadFile("../web/page/assets/reasons.js")
	if err != nil {
		t.Fatal(err)
	}
	table := func(name string) string {
		_, rest, ok := strings.Cut(string(script), "export const "+name+" = {")
		text, _, closed := strings.Cut(rest, "\n};")
		if !ok || !closed {
			t.Fatalf("reasons.js has no table %s", name)
		}
		return text
	}
	explained := func(reason, onPage, document string) {
		t.Helper()
		if !strings.Contains(onPage, "\n  "+reason+":") {
			t.Errorf("web/page/assets/reasons.js does not explain %s", reason)
		}
		if text, err := os.ReadFile(document); err != nil || !strings.Contains(string(text), "\n| `"+reason+"` |") {
			t.Errorf("%s has no row for %s (%v)", document, reason, err)
		}
	}
	lost, unlinked := table("lost"), table("unlinked")
	explained("hook_missed", lost, "../docs/agent.md")
	for _, k := range kernelCounters {
		if k.desc == descLost {
			explained(k.label[0], lost, "../docs/agent.md")
		}
	}
	for reason := uint32(1); event.UnlinkedName(reason) != ""; reason++ {
		explained(event.UnlinkedName(reason), unlinked, "../docs/linking.md")
	}
}

// A capability that this kernel refuses is logged once, and exported as 0; the
// others are 1.
func TestCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must run this test as root")
		}
		t.Skip("loading kernel programs needs root")
	}
	cgroup, err := platform.CgroupV2()
	if err != nil {
		t.Fatal(err)
	}
	all := tier.All
	t.Cleanup(func() { tier.All = all })
	have, err := kernel.Load(kernel.Options{Cgroup: cgroup})
	if err != nil {
		t.Fatal(err)
	}
	changed := all[slices.IndexFunc(all, func(c tier.Tier) bool { return c.Name == have.Tier() })]
	have.Close()
	changed.Programs = slices.Clone(changed.Programs)
	for i := range changed.Programs {
		if p := &changed.Programs[i]; p.Name == "tare_arm" {
			p.Hook.To = "tare_no_such_hook"
		}
	}
	tier.All = []tier.Tier{changed}

	var log bytes.Buffer
	a := &Agent{log: slog.New(slog.NewTextHandler(&log, nil)), losses: newLosses(), peers: newPeers(slog.New(slog.DiscardHandler))}
	cfg := config.Default()
	cfg.Instance = t.Name()
	a.cfg.Store(&cfg)
	if err := a.claimHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer a.claim.Close()
	if err := a.load(); err != nil {
		t.Fatal(err)
	}
	defer a.tracer.Close()
	if text := log.String(); strings.Count(text, "open_connections") != 1 || !strings.Contains(text, "tare_no_such_hook") || strings.Contains(text, "forked") {
		t.Error(text)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{a})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "tare_capability" {
			for _, m := range f.Metric {
				found[m.Label[0].GetValue()] = m.Gauge.GetValue()
			}
		}
	}
	for _, name := range changed.Capabilities() {
		want := 1.0
		if name == "open_connections" {
			want = 0
		}
		if got, ok := found[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
