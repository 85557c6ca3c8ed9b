package demo

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, want, got, name)
}

func example(t *testing.T) *Result {
	t.Helper()
	o := Defaults()
	o.Sample, o.Rounds = 0.01, 6
	r := newResult(o)
	r.Machine = Machine{CPUs: 2, Kernel: "6.1.0", Arch: "amd64"}
	report := fidelity.Report{
		Traces: 998, Complete: 992, Unlinked: map[string]int{"ends at shop": 3}, Incomplete: map[string]int{"missing redis server GET item:": 2}, Wrong: 1, Orphaned: 4, Split: 1,
	}
	report.Expect(1000)
	r.classified(report)
	r.fidelity(&record.Run{
		Requests: 100_000, Failures: 1,
		Decisions: record.Decisions{Sampled: 1000, Unsampled: 99_000},
		Lost:      map[string]uint64{"ring_full": 12, "queue_full": 0},
		Programs:  []record.Program{{Name: "sock_recv", Runs: 500_000, NsPerRun: 250}, {Name: "sock_send", Runs: 400_000, NsPerRun: 101.5}},
	})
	var c cost
	for i := range 6 {
		d := float64(i)
		c[untracedA] = append(c[untracedA], sample{rps: 2000 + d, cpu: 800})
		c[untracedB] = append(c[untracedB], sample{rps: 2010 + d, cpu: 802})
		c[traced] = append(c[traced], sample{rps: 1985 - d, cpu: 809 + d, cores: 0.01 + d/1000, rss: 30 + d, peak: 40})
	}
	c[traced][2].failed = 7
	c.into(r)
	return r
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example(t).WriteTable(&out))
	golden(t, "table.txt", out.Bytes())
}

func TestTableWithoutRounds(t *testing.T) {
	o := Defaults()
	o.Rounds = 0
	r := newResult(o)
	r.Machine = Machine{CPUs: 2, Kernel: "6.1.0", Arch: "arm64"}
	r.Requests, r.Sampled, r.Complete = 10, 10, 10
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out))
	golden(t, "table-no-rounds.txt", out.Bytes())
}

// Others read these keys.
func TestJSONKeys(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example(t).WriteJSON(&out))
	assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")), "lines of %s", out.String())
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	for _, key := range []string{
		"requests", "failed", "sampled", "complete", "incomplete", "orphaned", "wrong", "lost", "rps",
		"cpu_us_per_request", "baseline", "ratio", "control", "agent", "programs",
	} {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
	keys := func(path ...string) []string {
		m := got
		for _, key := range path {
			m = m[key].(map[string]any)
		}
		return slices.Sorted(maps.Keys(m))
	}
	for _, c := range []struct{ got, want []string }{
		{keys("baseline"), []string{"cpu_us_per_request", "rps"}},
		{keys("ratio", "rps"), []string{"hi", "lo", "median", "n"}},
		{keys("ratio", "cpu"), []string{"hi", "lo", "median", "n"}},
		{keys("control", "cpu"), []string{"hi", "lo", "median", "n"}},
		{keys("agent"), []string{"cpu_cores", "memory", "peak_rss_mib", "rss_mib"}},
		{keys("lost"), []string{"queue_full", "ring_full"}},
	} {
		assert.Equal(t, c.want, c.got, "keys")
	}
	program := got["programs"].([]any)[0].(map[string]any)
	if program["name"] != "sock_recv" || program["runs"] != 500_000.0 || program["ns_per_run"] != 250.0 {
		t.Errorf("program %v", program)
	}
}

func TestCostComparesWithinRounds(t *testing.T) {
	// The machine gets slower by half from round to round; the tracer costs
	// 10% in each. Medians of all windows would hide it, pairs do not.
	var c cost
	base := 1000.0
	for range 6 {
		c[untracedA] = append(c[untracedA], sample{rps: base, cpu: 1e6 / base})
		c[untracedB] = append(c[untracedB], sample{rps: base, cpu: 1e6 / base})
		c[traced] = append(c[traced], sample{rps: base / 1.1, cpu: 1.1e6 / base})
		base /= 1.5
	}
	r := newResult(Defaults())
	c.into(r)
	near := func(e stats.Ratio, want float64) bool { return e.Lo > want-1e-9 && e.Hi < want+1e-9 && e.N == 6 }
	if !near(r.Ratio.CPU, 1.1) || !near(r.Ratio.RPS, 1/1.1) || !near(r.Control.CPU, 1) || !near(r.Control.RPS, 1) {
		t.Errorf("ratio %+v, control %+v", r.Ratio, r.Control)
	}
}

func TestShareIsNotRoundedUpTo100(t *testing.T) {
	for want, c := range map[string][2]uint64{"": {0, 0}, "100%": {5, 5}, "99.999%": {999_999_999, 1_000_000_000}, "50.000%": {1, 2}} {
		assert.Equal(t, want, share(c[0], c[1]), "share(%d, %d)", c[0], c[1])
	}
}
