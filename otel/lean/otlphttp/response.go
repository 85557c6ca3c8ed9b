package otlphttp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/tare-trace/tare/otel/lean/internal/otlpwire"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

const (
	contentProtobuf = "application/x-protobuf"
	contentJSON     = "application/json"

	// maxResponse bounds what is read of a response, in bytes, after
	// decompression: as the official exporter and gRPC do.
	maxResponse = 4 << 20
)

// accepted returns the number of spans that the receiver rejected, or the error
// that its status means.
func accepted(response *http.Response, spans int, now func() time.Time) (rejected int, err error) {
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		partial, err := partialSuccess(response, spans)
		if err != nil {
			otel.Handle(fmt.Errorf("otlphttp: the receiver accepted a request (%s), but: %w", response.Status, err))
		} else if partial != (PartialSuccess{}) {
			otel.Handle(partial)
		}
		return partial.Rejected, nil
	}
	err = fmt.Errorf("%s answered %s%s", response.Request.URL.Redacted(), response.Status, explanation(response))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, &retry.Transient{Err: err, After: retryAfter(response.Header.Get("Retry-After"), now())}
	}
	return 0, err
}

func partialSuccess(response *http.Response, spans int) (PartialSuccess, error) {
	body, err := readBody(response)
	if err != nil || len(body) == 0 {
		return PartialSuccess{}, err
	}
	switch contentType(response) {
	case contentProtobuf:
		return otlpwire.DecodeResponse(body, spans)
	case contentJSON:
		return otlpwire.DecodeResponseJSON(body, spans)
	}
	return PartialSuccess{}, nil // "OK" of some gateway
}

// explanation is the server's message with something before it, or nothing.
func explanation(response *http.Response) string {
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		return ": the redirect to " + strconv.Quote(otlpwire.Text([]byte(location))) + " is not followed: configure that endpoint if it is right"
	}
	body, err := readBody(response)
	if err != nil && len(body) == 0 {
		return fmt.Sprintf(" (its message cannot be read: %v)", err)
	}
	message := ""
	switch contentType(response) {
	case contentProtobuf:
		if message, err = otlpwire.DecodeStatus(body); err != nil {
			return fmt.Sprintf(" (%v)", err)
		}
	case contentJSON:
		if message, err = otlpwire.DecodeStatusJSON(body); err != nil || message == "" {
			message = otlpwire.Text(body) // some other JSON
		}
	default:
		message = otlpwire.Text(body)
	}
	if message = strings.TrimSpace(message); message == "" {
		return ""
	}
	return ": " + message
}

func contentType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind
}

var errTooLarge = errors.New("the response is larger than 4 MiB")

func readBody(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if len(body) > maxResponse {
		return body[:maxResponse], errTooLarge
	}
	return body, err
}

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3); 0 if the text
// is neither, or the date is past.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if err != nil || seconds > math.MaxInt64/uint64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
