package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Samplers are those of OpenTelemetry's samplers that the kernel side implements.
var Samplers = []string{
	"always_on", "always_off", "traceidratio",
	"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
}

const probabilityRange = "a probability from 0 to 1"

// Never is the threshold that samples nothing: the random value of a trace has 56 bits.
const Never = uint64(1) << 56

// Threshold returns a sampler's threshold for consistent probability sampling: a trace is
// sampled iff the low 56 bits of its id are at least th. A parent-based sampler follows
// the parent's decision and uses th at roots only.
//
// A probability below 2^-57 rounds to Never.
func Threshold(sampler string, arg float64) (th uint64, parentBased bool, err error) {
	if !slices.Contains(Samplers, sampler) {
		return Never, false, oneOf("sampler", sampler, Samplers...)
	}
	root, parentBased := strings.CutPrefix(sampler, "parentbased_")
	switch root {
	case "always_on":
		return 0, parentBased, nil
	case "always_off":
		return Never, parentBased, nil
	}
	if math.IsNaN(arg) || arg < 0 || arg > 1 {
		return Never, parentBased, &Error{"sampler_arg", fmt.Sprint(arg), probabilityRange}
	}
	return ThresholdOf(arg), parentBased, nil
}

// ThresholdOf is the threshold that samples a share of the traces, 0 to 1.
func ThresholdOf(p float64) uint64 {
	// Not (1-p)*2^56: scaling by a power of two is exact, 1-p is not.
	return Never - uint64(math.Round(p*float64(Never)))
}

// TraceState is the tracestate member with the threshold: 14 hexadecimal digits without
// trailing zeros. It is empty for Never, which samples no trace.
func TraceState(th uint64) string {
	if th >= Never {
		return ""
	}
	digits := strings.TrimRight(fmt.Sprintf("%014x", th), "0")
	if digits == "" {
		digits = "0"
	}
	return "ot=th:" + digits
}

// Probability is the share of traces that a threshold samples.
func Probability(th uint64) float64 {
	if th >= Never {
		return 0
	}
	return float64(Never-th) / float64(Never)
}
