package otlpwire

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of google/rpc/status.proto, google/rpc/error_details.proto and
// google/protobuf/duration.proto.
const (
	statusMessage   = 2 // google.rpc.Status
	retryInfoDelay  = 1 // google.rpc.RetryInfo
	durationSeconds = 1 // google.protobuf.Duration, int64
	durationNanos   = 2 // int32
)

// DecodeStatus returns the message of a google.rpc.Status, the body of an
// OTLP/HTTP response that reports a failure.
func DecodeStatus(data []byte) (message string, err error) {
	var text []byte
	err = fields(data, func(number protowire.Number, _ uint64, body []byte) error {
		if number == statusMessage && body != nil {
			text = body
		}
		return nil
	})
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
	err := fields(data, func(number protowire.Number, _ uint64, body []byte) error {
		if number != retryInfoDelay {
			return nil
		}
		return fields(body, func(number protowire.Number, value uint64, body []byte) error {
			switch {
			case number == durationSeconds && body == nil:
				seconds = int64(value)
			case number == durationNanos && body == nil:
				nanos = int64(int32(value))
			}
			return nil
		})
	})
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

// fields calls found with every field: its value if it is a number, its body
// (not nil) if it has a length.
func fields(data []byte, found func(number protowire.Number, value uint64, body []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var value uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(data)
			if n >= 0 && body == nil {
				body = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if kind == protowire.VarintType || kind == protowire.BytesType {
			if err := found(number, value, body); err != nil {
				return err
			}
		}
	}
	return nil
}
