package guard

import (
	"math"
	"runtime/debug"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/processor/processortest"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, c := range []struct {
		limit, spike uint32
		env          string
		want         int64
	}{
		{1000, 250, "", 750 << 20},
		{1000, 0, "", 800 << 20},
		{1000, 250, "64MiB", math.MaxInt64}, // read by the runtime at the start
	} {
		t.Setenv("GOMEMLIMIT", c.env)
		debug.SetMemoryLimit(math.MaxInt64)
		f := LimitMemory(memorylimiterprocessor.NewFactory())
		cfg := f.CreateDefaultConfig().(*memorylimiterprocessor.Config) //nolint:errcheck // it is one
		cfg.CheckInterval, cfg.MemoryLimitMiB, cfg.MemorySpikeLimitMiB = time.Second, c.limit, c.spike
		if _, err := f.CreateTraces(t.Context(), processortest.NewNopSettings(f.Type()), cfg, consumertest.NewNop()); err != nil {
			t.Fatal(err)
		}
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%+v: limit %d", c, got)
		}
	}
}
