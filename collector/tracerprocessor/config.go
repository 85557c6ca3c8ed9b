package tracerprocessor

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/tare-trace/tare/collector/internal/assemble"
)

// Config of tare_tracer.
type Config struct {
	// Messages is what becomes of message events, spans named "sent" and
	// "received" (the agent's events: on and only): merge (default) makes them
	// span events of their request's span, those of one direction that follow
	// each other being one; keep leaves them spans; drop drops them. In every
	// mode a request whose span is not sent (events: only) gets one.
	Messages string `mapstructure:"messages"`

	// Settle is how long a trace that seems complete waits for stragglers, from
	// its last span; default 2s, 0s to 10m. Spans of the agent tell what is below
	// them (span.KeyCalls, span.KeyPeerTraced): such traces go as soon as all is
	// there. Those of an SDK do not: a root alone looks complete, and its batch
	// processor sends others up to 5 s later. With 0 they go at once, too; that
	// fits where one request carries all of a trace.
	Settle time.Duration `mapstructure:"settle"`
	// Expiry is how long after its last span an incomplete trace is given
	// out, default 10s. 10ms to 1h.
	Expiry time.Duration `mapstructure:"expiry"`
	// MaxAge is how long after its first span any trace is given out, default
	// 60s. At least Expiry, to 24h.
	MaxAge time.Duration `mapstructure:"max_age"`

	// Late is what becomes of spans whose trace was given out: attach (default)
	// passes them on, marked; drop drops them.
	Late string `mapstructure:"late"`
	// Remember is how many traces given out late spans and duplicates are
	// known by, default 200,000; 100 bytes or so each.
	Remember int `mapstructure:"remember"`

	// Clock is what is done where a server span lies outside the client span
	// that caused it, on another host: correct (default) moves the times of
	// the server's host in this trace and marks its spans; mark only marks
	// them; off.
	Clock string `mapstructure:"clock"`

	// Peers says which client spans need a server span: attribute (default),
	// those whose peer was seen to be traced (tare.peer.traced); learned, also
	// those towards an address on which server spans were seen within 10
	// minutes; this is for services traced by SDKs, all of them at one rate.
	Peers string `mapstructure:"peers"`

	// Sequence joins traces that met on one connection where no tag passed:
	// a client span without a server span, and a server span without a parent.
	// Requests that are made of message events (events: only) are not joined,
	// and peers are not learned of them.
	Sequence SequenceConfig `mapstructure:"sequence"`

	// MaxSpans is how many spans wait at once, default 500,000, and MaxBytes
	// how many bytes they may have, estimated, default 512 MiB. Beyond, the
	// oldest traces are given out early. Each shard has its part of both.
	MaxSpans int `mapstructure:"max_spans"`
	MaxBytes int `mapstructure:"max_bytes"`
	// MaxTraceSpans is how many spans of one trace wait together, default
	// 100,000; a larger one is given out in parts.
	MaxTraceSpans int `mapstructure:"max_trace_spans"`
	// Shards is among how many locks traces are spread, default: CPUs that Go
	// uses. 1 to 64.
	Shards int `mapstructure:"shards"`
}

// SequenceConfig is for agents with sequence: on.
type SequenceConfig struct {
	// Enabled, default false. A trace with a span that may have its other half
	// elsewhere waits then, though complete.
	Enabled bool `mapstructure:"enabled"`
	// Wait is how far apart both halves may come, default 3s. 10ms to 1m, less
	// than Expiry and MaxAge.
	Wait time.Duration `mapstructure:"wait"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Messages: "merge", Late: "attach", Clock: "correct", Peers: "attribute",
		Settle: 2 * time.Second, Expiry: 10 * time.Second, MaxAge: time.Minute, Remember: 200_000,
		Sequence: SequenceConfig{Wait: 3 * time.Second},
		MaxSpans: 500_000, MaxBytes: 512 << 20, MaxTraceSpans: 100_000,
		Shards: min(runtime.GOMAXPROCS(0), 64),
	}
}

// Validate tells every value that is out of range.
func (c *Config) Validate() error {
	var errs []error
	word := func(key, value string, allowed ...string) {
		for _, w := range allowed {
			if value == w {
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s: %q is none of %q", key, value, allowed))
	}
	span := func(key string, value, low, high time.Duration) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %s is not within %s and %s", key, value, low, high))
		}
	}
	count := func(key string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %d is not within %d and %d", key, value, low, high))
		}
	}
	word("messages", c.Messages, "merge", "keep", "drop")
	word("late", c.Late, "attach", "drop")
	word("clock", c.Clock, "correct", "mark", "off")
	word("peers", c.Peers, "attribute", "learned")
	span("settle", c.Settle, 0, 10*time.Minute)
	span("expiry", c.Expiry, 10*time.Millisecond, time.Hour)
	span("max_age", c.MaxAge, c.Expiry, 24*time.Hour)
	if c.Sequence.Enabled {
		span("sequence.wait", c.Sequence.Wait, 10*time.Millisecond, time.Minute)
		if c.Sequence.Wait >= c.Expiry {
			errs = append(errs, fmt.Errorf("sequence.wait: %s is not less than expiry, %s", c.Sequence.Wait, c.Expiry))
		}
	}
	count("remember", c.Remember, 1, 100_000_000)
	count("max_spans", c.MaxSpans, 1, 1_000_000_000)
	count("max_bytes", c.MaxBytes, 1<<10, 1<<40)
	count("max_trace_spans", c.MaxTraceSpans, 1, 10_000_000)
	count("shards", c.Shards, 1, 64)
	return errors.Join(errs...)
}

// options are the assembler's. Validate has passed.
func (c *Config) options() assemble.Options {
	o := assemble.Options{
		Messages: map[string]assemble.MessageMode{
			"merge": assemble.MergeMessages, "keep": assemble.KeepMessages, "drop": assemble.DropMessages,
		}[c.Messages],
		Clock: map[string]assemble.ClockMode{
			"correct": assemble.CorrectClocks, "mark": assemble.MarkClocks, "off": assemble.IgnoreClocks,
		}[c.Clock],
		DropLate: c.Late == "drop", LearnPeers: c.Peers == "learned",
		Settle: c.Settle, Expiry: c.Expiry, MaxAge: c.MaxAge,
		MaxSpans: c.MaxSpans, MaxBytes: c.MaxBytes, MaxTraceSpans: c.MaxTraceSpans,
		Remember: c.Remember, Shards: c.Shards,
	}
	if c.Sequence.Enabled {
		o.SequenceWait = c.Sequence.Wait
	}
	return o
}
