package otlpwire

import (
	"fmt"
	"unicode/utf8"

	"github.com/tare-trace/tare/otel/wire/fields"
)

// PartialSuccess is what a receiver says about a request that it took in part
// (ExportTracePartialSuccess). The zero value is full success.
type PartialSuccess struct {
	// Rejected is the number of spans that it refused. With 0 and a message
	// it took all of them and has something to say.
	Rejected int
	Message  string
}

// Error makes PartialSuccess an error, for OpenTelemetry's error handler.
func (p PartialSuccess) Error() string {
	switch {
	case p.Rejected == 0:
		return "OTLP receiver warns: " + p.Message
	case p.Message == "":
		return fmt.Sprintf("OTLP partial success: %d spans rejected without a reason", p.Rejected)
	default:
		return fmt.Sprintf("OTLP partial success: %d spans rejected: %s", p.Rejected, p.Message)
	}
}

// Tags of opentelemetry/proto/collector/trace/v1/trace_service.proto: number<<3 | type.
const (
	responsePartialSuccess = 1<<3 | 2 // ExportTraceServiceResponse
	partialRejectedSpans   = 1 << 3   // ExportTracePartialSuccess, int64
	partialErrorMessage    = 2<<3 | 2 // string
)

// DecodeResponse reads an ExportTraceServiceResponse for a request of so many
// spans: the number rejected is held within 0 and spans, whatever the receiver
// claims, and the message is cut to [MaxMessage].
func DecodeResponse(data []byte, spans int) (PartialSuccess, error) {
	var rejected int64
	var message []byte
	err := fields.Along(data, func(partial []byte) error {
		return fields.Each(partial, func(tag, value uint64, content, _ []byte) error {
			switch tag {
			case partialRejectedSpans:
				rejected = int64(value)
			case partialErrorMessage:
				message = content
			}
			return nil
		})
	}, responsePartialSuccess)
	if err != nil {
		return PartialSuccess{}, fmt.Errorf("the response is not an ExportTraceServiceResponse: %w", err)
	}
	return PartialSuccess{Rejected: clamp(rejected, spans), Message: Text(message)}, nil
}

func clamp(rejected int64, spans int) int {
	return int(max(0, min(rejected, int64(spans))))
}

// MaxMessage bounds, in bytes, what is kept of a receiver's message.
const MaxMessage = 1024

// Text returns a receiver's text as valid UTF-8 without control characters, cut
// to [MaxMessage]: it ends in log lines.
func Text(text []byte) string {
	cut := len(text) > MaxMessage
	if cut {
		text = text[:MaxMessage]
	}
	out := make([]rune, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			if cut && len(text) < utf8.UTFMax-1 {
				continue // half of a character, made by the cut
			}
		case r < ' ' || r == 0x7f:
			r = ' '
		}
		out = append(out, r)
	}
	if cut {
		out = append(out, '…')
	}
	return string(out)
}
