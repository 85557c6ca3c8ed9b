package config

import (
	"strconv"
	"strings"
	"time"
)

// minFloor is the lowest rate that a budget may lead to: from nothing no rate rises.
const minFloor = 1e-6

// Budget is what tracing may cost: a share of this host's CPUs, or CPU time per request.
type Budget struct {
	Share      float64       // 0 to 1; 0: no such budget
	PerRequest time.Duration // that a traced service receives; 0: no such budget
	Floor      float64       // the sampling rate never falls below it, 0 to 1
}

// On reports whether there is a budget.
func (b Budget) On() bool { return b.Share > 0 || b.PerRequest > 0 }

// String is a budget as the user writes it; "off" of none.
func (b Budget) String() string {
	switch {
	case b.PerRequest > 0:
		return b.PerRequest.String()
	case b.Share > 0:
		return strconv.FormatFloat(100*b.Share, 'g', 4, 64) + "%"
	}
	return "off"
}

func parseBudget(where, v string) (share float64, each time.Duration, err error) {
	wrong := &Error{where, v, "a share of this host's CPUs such as 1%, CPU time per request such as 5us, or off"}
	if v == "" || v == "off" {
		return 0, 0, nil
	}
	if percent, ok := strings.CutSuffix(v, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return 0, 0, wrong
		}
		return p / 100, 0, nil
	}
	each, err = time.ParseDuration(v)
	if err != nil || each <= 0 || each > time.Second {
		return 0, 0, wrong
	}
	return 0, each, nil
}
