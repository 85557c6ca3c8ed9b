package config

// Published says which of two spans of the same request or call is kept, where an SDK in the
// service publishes its own (docs/published.md). A collector's tare_tracer does it: only there are
// both.
type Published uint8

// The values of Published.
const (
	KeepBoth Published = 0
	KeepSDK  Published = 1 // Tare's is dropped, and what is below it is the SDK's child
	KeepTare Published = 2 // the SDK's is
)

var publishedNames = []string{KeepBoth: "both", KeepSDK: "sdk", KeepTare: "tare"}

func (p Published) String() string {
	if int(p) < len(publishedNames) {
		return publishedNames[p]
	}
	return "invalid"
}

// MarshalText writes the name, for JSON.
func (p Published) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func parsePublished(where, text string) (Published, error) {
	for p, name := range publishedNames {
		if text == name {
			return Published(p), nil
		}
	}
	return KeepBoth, oneOf(where, text, publishedNames...)
}
