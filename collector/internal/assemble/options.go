package assemble

import "time"

// MessageMode says what happens to message events.
type MessageMode uint8

// The values of Options.Messages.
const (
	MergeMessages MessageMode = iota // they become span events of their request's span
	KeepMessages                     // they stay spans
	DropMessages
)

// ClockMode says what happens if parents prove that two clocks differ.
type ClockMode uint8

// The values of Options.Clock.
const (
	CorrectClocks ClockMode = iota // times are moved, and the spans say by how much
	MarkClocks                     // the spans say by how much, but times are not moved
	IgnoreClocks
)

// Options of an Assembler. A zero value selects the default.
type Options struct {
	Messages MessageMode
	Clock    ClockMode
	DropLate bool // drop late spans instead of emitting them

	// Settle is how long a complete trace waits after its last span for more spans;
	// default 0.
	Settle time.Duration
	// Expiry is how long after its last span an incomplete trace is emitted, default
	// 10 s.
	Expiry time.Duration
	// MaxAge is how long after its first span any trace is emitted, default 60 s.
	MaxAge time.Duration
	// SequenceWait is how far apart in time the two halves may arrive that are joined
	// by connection and stream offset. Each trace with such a half waits that long.
	// 0: no joins.
	SequenceWait time.Duration
	// Renumbered says that devices between the hosts change sequence numbers, so that
	// only addresses and offsets are compared.
	Renumbered bool
	// LearnPeers treats an address on which server spans were seen as traced: client
	// spans that call it need a server span.
	LearnPeers bool
	// LearnRoutes names HTTP spans without a route by one that is learned.
	LearnRoutes bool

	MaxSpans      int // waiting at once, default 500,000, divided among the shards
	MaxBytes      int // their estimated bytes, default 512 MiB, divided among the shards
	MaxTraceSpans int // of one trace, default 100,000
	Remember      int // emitted traces remembered, to recognise late spans, default 200,000
	Shards        int // default 1
}

func (o Options) withDefaults() Options {
	set := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	count := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.Expiry, 10*time.Second)
	set(&o.MaxAge, time.Minute)
	count(&o.MaxSpans, 500_000)
	count(&o.MaxBytes, 512<<20)
	count(&o.MaxTraceSpans, 100_000)
	count(&o.Remember, 200_000)
	count(&o.Shards, 1)
	return o
}
