package assemble

import "time"

// MessageMode is what becomes of message events.
type MessageMode uint8

// The values of Options.Messages.
const (
	MergeMessages MessageMode = iota // span events of the request's span
	KeepMessages                     // spans, as they came
	DropMessages
)

// ClockMode is what is done where parents prove that two clocks differ.
type ClockMode uint8

// The values of Options.Clock.
const (
	CorrectClocks ClockMode = iota // times are moved, and spans marked
	MarkClocks                     // spans are marked with what would be added
	IgnoreClocks
)

// Options of an Assembler. The zero value of each means its default.
type Options struct {
	Messages MessageMode
	Clock    ClockMode
	DropLate bool // late spans are dropped instead of passed on

	// Settle is how long a complete trace still waits for more spans, from
	// its last one; default 0.
	Settle time.Duration
	// Expiry is how long after its last span an incomplete trace is given
	// out, default 10 s.
	Expiry time.Duration
	// MaxAge is how long after its first span any trace is given out,
	// default 60 s.
	MaxAge time.Duration
	// SequenceWait is how far apart the two halves of a trace may come that
	// are joined by connection and stream offset. Every trace with a half
	// that could be joined waits for so long. 0: no joins.
	SequenceWait time.Duration
	// LearnPeers makes the addresses of server spans known as traced ones, of
	// which client spans need a server span.
	LearnPeers bool

	MaxSpans      int // held at once, default 500,000; each shard has its part
	MaxBytes      int // estimated bytes of these, default 512 MiB; likewise
	MaxTraceSpans int // of one trace, default 100,000
	Remember      int // traces given out that late spans are known by, default 200,000
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
