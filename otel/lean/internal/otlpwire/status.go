package otlpwire

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tare-trace/tare/otel/wire/fields"
)

// Tags of google/rpc/status.proto, google/rpc/error_details.proto and
// google/protobuf/duration.proto.
const (
	statusMessage   = 2<<3 | 2 // google.rpc.Status
	retryInfoDelay  = 1<<3 | 2 // google.rpc.RetryInfo
	durationSeconds = 1 << 3   // google.protobuf.Duration, int64
	durationNanos   = 2 << 3   // int32
)

// DecodeStatus returns the message of a google.rpc.Status, the body of an
// OTLP/HTTP response that reports a failure.
func DecodeStatus(data []byte) (message string, err error) {
	var text []byte
	err = fields.Along(data, func(message []byte) error {
		text = message
		return nil
	}, statusMessage)
	if err != nil {
		return "", fmt.Errorf("the response is not a google.rpc.Status: %w", err)
	}
	return Text(text), nil
}

// IsRetryInfo reports whether the type URL of a status detail is RetryInfo's.
func IsRetryInfo(typeURL string) bool {
	return typeURL[strings.LastIndexByte(typeURL, '/')+1:] == "google.rpc.RetryInfo"
}

// DecodeRetryInfo returns the delay of a google.rpc.RetryInfo: 0 if it is
// negative or absent, and at most math.MaxInt64 ns.
func DecodeRetryInfo(data []byte) (time.Duration, error) {
	var seconds, nanos int64
	err := fields.Along(data, func(delay []byte) error {
		return fields.Each(delay, func(tag, value uint64, _, _ []byte) error {
			switch tag {
			case durationSeconds:
				seconds = int64(value)
			case durationNanos:
				nanos = int64(int32(value))
			}
			return nil
		})
	}, retryInfoDelay)
	if err != nil {
		return 0, fmt.Errorf("the status detail is not a google.rpc.RetryInfo: %w", err)
	}
	switch {
	case seconds < 0 || seconds == 0 && nanos < 0:
		return 0, nil
	case seconds >= math.MaxInt64/int64(time.Second)-2: // nanos can add more than 2 s if they are out of range
		return math.MaxInt64, nil
	}
	return max(0, time.Duration(seconds)*time.Second+time.Duration(nanos)), nil
}
