package waterfall

import "github.com/tare-trace/tare/span/semconv"

// Reads reports whether [Analyse] looks at the attribute of a span with this key.
func Reads(key string) bool {
	switch key {
	case semconv.Late, semconv.ClockOffset, semconv.LinkedBy, semconv.LinkingReason, semconv.Behind, semconv.PeerTraced,
		semconv.TraceState, semconv.TraceReason, semconv.KeepReason, semconv.Retro, semconv.RetroReason,
		responseStatus, databaseStatus:
		return true
	}
	return semconv.IsTarget(key)
}

// Either says that a request was answered.
const (
	responseStatus = "http.response.status_code"
	databaseStatus = "db.response.status_code"
)
