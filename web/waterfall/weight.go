package waterfall

import (
	"strconv"
	"strings"
)

// weight reads how many traces a sampled one stands for: 1 / probability, from
// the threshold th of the ot member of a W3C tracestate (OpenTelemetry's
// probability sampling, OTEP 235): up to 14 hexadecimal digits of a fraction of
// 2^56, trailing zeros left out, that were rejected. 1 where nothing is said.
func weight(tracestate string) float64 {
	for member := range strings.SplitSeq(tracestate, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(member), "ot=")
		if !ok {
			continue
		}
		for field := range strings.SplitSeq(value, ";") {
			digits, ok := strings.CutPrefix(field, "th:")
			if !ok || digits == "" || len(digits) > 14 {
				continue
			}
			n, err := strconv.ParseUint(digits+strings.Repeat("0", 14-len(digits)), 16, 64)
			if err != nil {
				continue
			}
			return float64(1<<56) / float64(1<<56-n)
		}
	}
	return 1
}
