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
	// Messages says what happens to message events, spans named "sent" and "received"
	// (the agent's events: on and only). merge (default) makes them span events of
	// their request's span, consecutive ones of one direction becoming one; keep leaves
	// them spans; drop drops them. In each mode a request whose span is not sent
	// (events: only) gets one.
	Messages string `mapstructure:"messages"`

	// Settle is how long a trace that seems complete waits for more spans, from its
	// last span; default 2s, 0s to 10m. The agent's spans say what is below them
	// (semconv.Calls, semconv.PeerTraced), so their traces are emitted as soon as they
	// are complete. SDK spans do not: a root alone looks complete, and a batch
	// processor sends the others up to 5 s later. With 0 these traces are emitted at
	// once too, which fits only if one request carries all spans of a trace.
	Settle time.Duration `mapstructure:"settle"`
	// Expiry is how long after its last span an incomplete trace is emitted, default
	// 10s. 10ms to 1h.
	Expiry time.Duration `mapstructure:"expiry"`
	// MaxAge is how long after its first span any trace is emitted, default 60s. From
	// Expiry to 24h.
	MaxAge time.Duration `mapstructure:"max_age"`

	// Late says what happens to spans whose trace was emitted: attach (default) passes
	// them on with semconv.Late; drop drops them.
	Late string `mapstructure:"late"`
	// Remember is how many emitted traces are remembered, to recognise late spans and
	// duplicates; default 200,000, about 100 bytes each.
	Remember int `mapstructure:"remember"`

	// Clock says what happens if a server span lies outside the client span that caused
	// it, on another host: correct (default) moves the times of the server's host in
	// this trace and writes the offset on its spans; mark only writes the offset; off
	// does nothing.
	Clock string `mapstructure:"clock"`

	// Peers says which client spans need a server span: attribute (default), those whose
	// peer was seen to be traced (tare.peer.traced); learned, also those that call an
	// address on which server spans were seen within the last 10 minutes. learned is for
	// services traced by SDKs that all sample at the same rate.
	Peers string `mapstructure:"peers"`

	// Routes says how HTTP spans are named whose sender knows no route: learned (default),
	// by a route that is learned from the paths of the service's requests; off leaves
	// names as they are.
	Routes string `mapstructure:"routes"`

	// Sequence joins two traces that were cut on one connection because no tag passed:
	// one has a client span without a server span, the other a server span without a
	// parent. Requests that are made from message events (events: only) are not
	// joined, and peers are not learned from them.
	Sequence SequenceConfig `mapstructure:"sequence"`

	// Journal is the id of an extension that keeps a journal, tare_store: spans are in it
	// before their sender gets its response, and until the next consumer has taken them, so
	// that they survive the end of the process. They are passed on from goroutines of this
	// component, and acknowledged when they are in the journal, not when exporters have
	// taken them; an exporter with a queue in memory (sending_queue) has to be configured
	// with wait_for_result for its spans to survive, too. Default: none.
	Journal *component.ID `mapstructure:"journal"`
	// MaxJournalBytes is how large the journal may become, default 4 GiB. It keeps what arrived since the oldest span that
	// waits. Beyond it requests are refused, and their senders told to send them again.
	MaxJournalBytes int `mapstructure:"max_journal_bytes"`

	// MaxSpans is how many spans wait at once, default 500,000, and MaxBytes is their
	// estimated size, default 512 MiB. Beyond either, the oldest traces are emitted
	// early. Each shard has an equal part of both.
	MaxSpans int `mapstructure:"max_spans"`
	MaxBytes int `mapstructure:"max_bytes"`
	// MaxTraceSpans is how many spans of one trace wait together, default 100,000; a
	// larger trace is emitted in parts.
	MaxTraceSpans int `mapstructure:"max_trace_spans"`
	// Shards is the number of locks over which traces are spread, default: the CPUs
	// that Go uses. 1 to 64.
	Shards int `mapstructure:"shards"`
}

// SequenceConfig configures joins, for agents with sequence: on or tag: none.
type SequenceConfig struct {
	// Enabled, default false. A complete trace then waits too, if one of its spans may
	// have its other half in another trace.
	Enabled bool `mapstructure:"enabled"`
	// Wait is how far apart in time both halves may arrive, default 3s. 10ms to 1m, less
	// than Expiry and MaxAge.
	Wait time.Duration `mapstructure:"wait"`
	// Renumbered, default false, says that devices between the hosts change TCP sequence
	// numbers. Two connections that have the same addresses within Wait are then not told
	// apart: both are not joined or, if not every request is sampled, wrongly.
	Renumbered bool `mapstructure:"renumbered"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Messages: "merge", Late: "attach", Clock: "correct", Peers: "attribute", Routes: "learned",
		Settle: 2 * time.Second, Expiry: 10 * time.Second, MaxAge: time.Minute, Remember: 200_000,
		Sequence: SequenceConfig{Wait: 3 * time.Second},
		MaxSpans: 500_000, MaxBytes: 512 << 20, MaxTraceSpans: 100_000, MaxJournalBytes: 4 << 30,
		Shards: min(runtime.GOMAXPROCS(0), 64),
	}
}

// Validate reports every value that is out of range.
func (c *Config) Validate() error {
	var errs []error
	word := func(key, value string, allowed ...string) {
		for _, w := range allowed {
			if value == w {
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s: %q is not one of %q", key, value, allowed))
	}
	span := func(key string, value, low, high time.Duration) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %s is not between %s and %s", key, value, low, high))
		}
	}
	count := func(key string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %d is not between %d and %d", key, value, low, high))
		}
	}
	word("messages", c.Messages, "merge", "keep", "drop")
	word("late", c.Late, "attach", "drop")
	word("clock", c.Clock, "correct", "mark", "off")
	word("peers", c.Peers, "attribute", "learned")
	word("routes", c.Routes, "learned", "off")
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
	count("max_journal_bytes", c.MaxJournalBytes, 1<<20, 1<<50)
	count("max_trace_spans", c.MaxTraceSpans, 1, 10_000_000)
	count("shards", c.Shards, 1, 64)
	return errors.Join(errs...)
}

// options translates a valid Config for the assembler.
func (c *Config) options() assemble.Options {
	o := assemble.Options{
		Messages: map[string]assemble.MessageMode{
			"merge": assemble.MergeMessages, "keep": assemble.KeepMessages, "drop": assemble.DropMessages,
		}[c.Messages],
		Clock: map[string]assemble.ClockMode{
			"correct": assemble.CorrectClocks, "mark": assemble.MarkClocks, "off": assemble.IgnoreClocks,
		}[c.Clock],
		DropLate: c.Late == "drop", LearnPeers: c.Peers == "learned", LearnRoutes: c.Routes == "learned",
		Settle: c.Settle, Expiry: c.Expiry, MaxAge: c.MaxAge,
		MaxSpans: c.MaxSpans, MaxBytes: c.MaxBytes, MaxTraceSpans: c.MaxTraceSpans,
		Remember: c.Remember, Shards: c.Shards,
	}
	if c.Sequence.Enabled {
		o.SequenceWait, o.Renumbered = c.Sequence.Wait, c.Sequence.Renumbered
	}
	return o
}
