package semconv_test

import (
	"testing"

	"github.com/tare-trace/tare/span/semconv"
)

func TestRetroSet(t *testing.T) {
	all, names := semconv.RetroKept, ""
	for _, reason := range semconv.RetroReasons {
		one := semconv.RetroSetOf(reason)
		if one == 0 || one&all != 0 || (one|semconv.RetroKept).String() != reason {
			t.Errorf("%s: %b, %q", reason, one, one)
		}
		all |= one
		names += "," + reason
	}
	if all.String() != names[1:] {
		t.Errorf("all: %q", all)
	}
	if got := semconv.RetroSetOf("new") | semconv.RetroKept; got.String() != "unknown" {
		t.Errorf("a reason that is not known: %q", got)
	}
	if semconv.RetroSet(0).String() != "" {
		t.Error("a trace that was not kept has a reason")
	}
}
