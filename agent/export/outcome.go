package export

import (
	"context"
	"errors"
	"net/url"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// transient tells whether the same batch may succeed later, although the
// client gave up: the receiver was not reached, or did not answer in time.
// What a receiver answered over HTTP is final here, since the client has
// retried what is not.
func transient(err error) bool {
	var unreached *url.Error // http.Client's, for all that is not an answer
	if errors.As(err, &unreached) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	// OTLP's list of retryable codes, without ResourceExhausted: the client
	// retries it when the receiver says that this helps.
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	default:
		return false
	}
}

// partialSuccess is a receiver's remark on a request that it took. A nil one
// is no remark.
type partialSuccess struct {
	message string
	spans   int64 // rejected, as reported
}

// rejected is the number of spans, of n, that the receiver did not take.
func (p *partialSuccess) rejected(n uint64) uint64 {
	if p == nil || p.spans <= 0 {
		return 0
	}
	return min(uint64(p.spans), n)
}

// findPartialSuccess finds the remark in what UploadTraces returned. Both
// clients report it as an error, of a type that each keeps in an internal
// package: only its exported fields can be had, by reflection. A test with
// real receivers fails if they are ever renamed.
func findPartialSuccess(err error) *partialSuccess {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Struct && v.Type().Name() == "PartialSuccess" {
		n, text := v.FieldByName("RejectedItems"), v.FieldByName("ErrorMessage")
		if n.IsValid() && n.CanInt() && text.IsValid() {
			return &partialSuccess{message: text.String(), spans: n.Int()}
		}
	}
	switch x := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() error }:
		return findPartialSuccess(x.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			if p := findPartialSuccess(e); p != nil {
				return p
			}
		}
	}
	return nil
}
