package otlphttp

import (
	"math"
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0,
		"9223372036": 9223372036 * time.Second, "9223372037": math.MaxInt64, "99999999999999999999": math.MaxInt64,
		"Fri, 02 Jan 2026 03:05:05 GMT":  time.Minute,
		"Friday, 02-Jan-26 03:05:05 GMT": time.Minute,
		"Fri Jan  2 03:05:05 2026":       time.Minute,
		"Fri, 02 Jan 2026 03:04:04 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  math.MaxInt64,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, seed := range []string{"", "1", "-1", "9223372037", now.Format(http.TimeFormat), "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := retryAfter(text, now); got < 0 {
			t.Errorf("%q: %v", text, got)
		}
	})
}
