package adaptive

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// FromEnv is DefaultConfig with what the variables of Hoikka 2026, 4.1.2, say:
//
//	ADAPTIVE_BASE_RATE          0 to 1, at most the maximum
//	ADAPTIVE_ERROR_BOOST        1 to 1e6
//	ADAPTIVE_LATENCY_THRESHOLD  milliseconds, 0 to 24 h
//	ADAPTIVE_LATENCY_BOOST      1 to 1e6
//	ADAPTIVE_UPDATE_INTERVAL    seconds, 0.001 to 24 h
//	ADAPTIVE_MAX_RATE           0 to 1
//
// A variable that is empty counts as not set. The error names every variable
// that is wrong.
func FromEnv() (Config, error) { return fromEnv(os.Getenv) }

func fromEnv(get func(string) string) (Config, error) {
	c := DefaultConfig()
	var errs []error
	number := func(name string, to *float64, low, high float64, unit string) {
		text := strings.TrimSpace(get(name))
		if text == "" {
			return
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= low && v <= high) {
			errs = append(errs, fmt.Errorf("%s=%q: want a number from %v to %v%s", name, text, low, high, unit))
			return
		}
		*to = v
	}
	threshold, interval := ms(c.LatencyThreshold), c.UpdateInterval.Seconds()
	number("ADAPTIVE_BASE_RATE", &c.BaseRate, 0, 1, "")
	number("ADAPTIVE_ERROR_BOOST", &c.ErrorBoost, 1, maxBoost, "")
	number("ADAPTIVE_LATENCY_THRESHOLD", &threshold, 0, ms(maxDuration), " (milliseconds)")
	number("ADAPTIVE_LATENCY_BOOST", &c.LatencyBoost, 1, maxBoost, "")
	number("ADAPTIVE_UPDATE_INTERVAL", &interval, minInterval.Seconds(), maxDuration.Seconds(), " (seconds)")
	number("ADAPTIVE_MAX_RATE", &c.MaxRate, 0, 1, "")
	if c.BaseRate > c.MaxRate {
		errs = append(errs, fmt.Errorf("ADAPTIVE_BASE_RATE is %v, want at most ADAPTIVE_MAX_RATE, %v", c.BaseRate, c.MaxRate))
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("adaptive: %w", err)
	}
	c.LatencyThreshold, _ = duration(threshold, time.Millisecond) // in range
	c.UpdateInterval, _ = duration(interval, time.Second)
	return c, nil
}
