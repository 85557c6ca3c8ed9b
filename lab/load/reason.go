package load

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

var errTimeout = errors.New("timeout")

type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// dialError is a failure before a request could be sent.
type dialError struct{ err error }

func (e dialError) Error() string { return "dial: " + reason(e.err) }

func (e dialError) Unwrap() error { return e.err }

// reason is an error without what differs from request to request, such as
// port numbers.
func reason(err error) string {
	var dial dialError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dial):
		return dial.Error()
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed within the response"
	}
	return err.Error()
}
