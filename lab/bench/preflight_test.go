package bench

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

// What an optional workload needs and this machine lacks leaves it out, and says so.
func TestOptionalWorkloadIsLeftOut(t *testing.T) {
	kind := "polyglot-cpp-threads" // nothing is built beside this test
	b := &bench{
		opts: Options{Out: io.Discard}, stage: &Stage{},
		manifest: &record.Manifest{LeftOut: map[string]string{}},
		cells:    []experiment.Cell{{Name: "threads/l", Workload: &experiment.Workload{Name: "threads", Kind: kind, Optional: true}}},
	}
	err := b.preflight(t.Context())
	if why := b.manifest.LeftOut["threads"]; err == nil || len(b.cells) != 0 || !strings.Contains(why, "not ") {
		t.Errorf("%v, %d cells, left out because %q", err, len(b.cells), why)
	}
	assert.NoError(t, absent(&experiment.Workload{Kind: kind}), "a workload that is not optional")
}

// A load generator that sends GETs alone is refused before anything is started.
func TestBodiesNeedALoadThatSendsThem(t *testing.T) {
	b := &bench{cells: []experiment.Cell{{Name: "w/l", Workload: &experiment.Workload{Post: true, Size: 1}, Load: &experiment.Load{Tool: "ab"}}}}
	assert.ErrorContains(t, b.tools(), "w/l: the load generator ab sends no bodies")
	b.cells[0].Load.Tool = ""
	assert.NoError(t, b.tools())
}

// What needs another kernel is left out with the kernel's reason, and stops nothing.
func TestWhatTheKernelDoesNotOfferIsLeftOut(t *testing.T) {
	tare := filepath.Join(t.TempDir(), "tare")
	const answer = `#!/bin/sh
echo '{"tiers": [{"name": "fentry", "state": "refused", "error": "no trampolines"}]}'
exit 1
`
	if err := os.WriteFile(tare, []byte(answer), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	fentry := &experiment.Tracer{Name: "early", Driver: "tare", Rates: []float64{0.01, 1}, Flags: []string{"--tier", "fentry"}}
	none := &experiment.Tracer{Name: "none", Driver: "none"}
	again := experiment.Variant{Name: "none again", Tracer: none, Control: true}
	b := &bench{
		opts: Options{Out: io.Discard}, stage: &Stage{Tare: tare},
		manifest: &record.Manifest{LeftOut: map[string]string{}, NotOffered: map[string]string{}},
		cells: []experiment.Cell{{Name: "w/l", Workload: &experiment.Workload{Name: "w"}, Variants: []experiment.Variant{
			again, {Name: "early@0.01", Tracer: fentry, Rate: 0.01}, {Name: "early@1", Tracer: fentry, Rate: 1},
		}}},
	}
	require.NoError(t, b.preflight(t.Context()))
	if left := b.cells[0].Variants; len(left) != 1 || !left[0].Control {
		t.Errorf("variants %v", left)
	}
	if got := b.manifest.NotOffered; len(got) != 1 || got["early"] != "no trampolines" || len(b.manifest.LeftOut) != 0 {
		t.Errorf("not offered %v, left out %v", got, b.manifest.LeftOut)
	}
}
