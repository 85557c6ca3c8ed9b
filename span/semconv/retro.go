package semconv

import "strings"

// What the agent's retroactive sampling writes: it keeps a trace that head sampling did not choose, after one of its
// spans showed a reason to. None of its spans has a threshold (th) in the tracestate.
const (
	Retro       = "tare.retro"        // bool: on every span of such a trace
	RetroReason = "tare.retro.reason" // one of RetroReasons: on the span that triggered it, and on the root where it is known
)

// RetroReasons are the values of RetroReason. Stores number them by their place here, so new ones are appended.
var RetroReasons = [...]string{"error", "slow", "no_response", "reset", "open", "outside", "capture"}

// RetroSet is why a trace was kept retroactively: RetroKept, and the reasons that are known; 0 if it was not.
type RetroSet uint16

// RetroKept is in the set of every trace that was kept retroactively.
const RetroKept RetroSet = 1

// RetroSetOf is the set of one reason; 0 for one that is not known.
func RetroSetOf(reason string) RetroSet {
	for i, r := range RetroReasons {
		if r == reason {
			return RetroKept << (i + 1)
		}
	}
	return 0
}

// String is the reasons with commas between, "unknown" if there is none, "" for a trace that was not kept.
func (s RetroSet) String() string {
	var names []string
	for i, r := range RetroReasons {
		if s&(RetroKept<<(i+1)) != 0 {
			names = append(names, r)
		}
	}
	if len(names) == 0 && s&RetroKept != 0 {
		return "unknown"
	}
	return strings.Join(names, ",")
}
