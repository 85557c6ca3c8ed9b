package rootcause

// Diagnosis is the result. Durations are nanoseconds.
type Diagnosis struct {
	Share   float64 `json:"share"` // which traces are slow, of each entry operation
	Traces  int     `json:"traces"`
	NoRoot  int     `json:"no_root"`   // traces that were left out, because their root is not known
	Large   int     `json:"too_large"` // traces that were left out, because there is no memory to read them as a whole
	Retro   int     `json:"retro"`     // traces that were left out, because they were kept retroactively: estimates do not count them
	More    bool    `json:"more"`      // more traces matched than were read
	Entries []Entry `json:"entries"`   // the busiest first
	Others  int     `json:"others"`    // entry operations beyond those in Entries
}

// Entry is the traces of one entry operation.
type Entry struct {
	Service    string   `json:"service"`
	Operation  string   `json:"operation"`
	Traces     int      `json:"traces"`     // that were compared
	Incomplete int      `json:"incomplete"` // that were left out
	Requests   float64  `json:"requests"`   // which the compared ones stand for
	Slow       Part     `json:"slow"`
	Normal     Part     `json:"normal"`
	Verdict    Verdict  `json:"verdict"`
	Operations []Row    `json:"operations"` // by what they explain
	Services   []Row    `json:"services"`   // the same with the operations of a service as one
	Rest       float64  `json:"rest"`       // what operations that are not listed explain
	Tails      []Tail   `json:"tails"`
	Examples   []string `json:"examples"` // normal traces
}

// Part is the slow or the normal traces.
type Part struct {
	Traces int     `json:"traces"`
	From   float64 `json:"from_ns"` // the shortest
	To     float64 `json:"to_ns"`   // the longest
	Mean   float64 `json:"mean_ns"`
}

// Row is what one operation took in slow and in normal traces, on the critical path.
type Row struct {
	Kind      Kind   `json:"kind"`
	Service   string `json:"service"`
	From      string `json:"from,omitempty"` // of peer and between: who waited
	Operation string `json:"operation,omitempty"`
	// Explains is the share of what slow traces were slower by. It may be more than 1:
	// where this hides what ran beside it, that has a share below 0.
	Explains    Interval `json:"explains"`
	Excess      Interval `json:"excess_ns"` // of its own time, slow less normal
	Normal      float64  `json:"normal_ns"` // own time a trace, on average
	Slow        float64  `json:"slow_ns"`
	Waits       float64  `json:"waits_ns"` // of an operation's own rows: excess of the time in which it waited for others
	SpansNormal float64  `json:"spans_normal"`
	SpansSlow   float64  `json:"spans_slow"` // on the critical path of a trace, on average
	Role        Role     `json:"role,omitempty"`
	Unlinked    bool     `json:"unlinked,omitempty"` // calls that it makes may be missing
	Examples    []string `json:"examples,omitempty"` // the slow traces in which it took longest, if it explains 5%
}

// Role is what part a row has in the verdict.
type Role string

// The roles. Waits: it takes longer only because what it calls does.
const (
	Cause Role = "cause"
	Waits Role = "waits"
)

// Status is what is known.
type Status string

// The statuses.
const (
	Found      Status = "found"
	Nothing    Status = "nothing_stands_out"
	CannotTell Status = "cannot_tell"
)

// Verdict answers what makes slow traces slow.
type Verdict struct {
	Status Status `json:"status"`
	Text   string `json:"text"` // in words
	Causes []Row  `json:"causes"`
	// ByService: the causes are services, of which no single operation stands out.
	ByService bool `json:"by_service,omitempty"`
	// Confidence is in which share of the bootstrap's repetitions each cause explained more
	// than everything else did.
	Confidence float64 `json:"confidence"`
	// Ordered: also the order among the causes is certain.
	Ordered bool     `json:"ordered"`
	Notes   []string `json:"notes"` // what limits the verdict, and what to do about it
}

// Tail is how long spans of an operation took themselves, in all compared traces, waited for or not.
type Tail struct {
	Kind      Kind    `json:"kind"`
	Service   string  `json:"service"`
	From      string  `json:"from,omitempty"`
	Operation string  `json:"operation,omitempty"`
	Spans     int     `json:"spans"`
	P50       float64 `json:"p50_ns"`
	P99       float64 `json:"p99_ns"`
	// Ratio is P99 / P50, 0 if P50 is 0: ten or more is a heavy tail.
	Ratio float64 `json:"ratio"`
	// Share of the operation's own time that its slowest hundredth took.
	Share    float64 `json:"share"`
	Explains float64 `json:"explains"` // as in Row; about 0: nobody waits for this tail
}
