package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Time to end: whoever stops the service kills it after 5 s.
const (
	requestsEnd = 2500 * time.Millisecond // for requests under way
	spansEnd    = 2 * time.Second         // for what is to be flushed
)

// Listen opens what the variable LISTEN says.
func Listen(env *Env) (net.Listener, error) {
	l, err := net.Listen("tcp", env.String("LISTEN", "127.0.0.1:8080"))
	if err != nil {
		return nil, fmt.Errorf("LISTEN (host:port): %w", err)
	}
	return l, nil
}

// Serve answers on a listener until ctx ends; then it lets the requests under
// way come to their end, cuts off those that take too long, and calls flush.
func Serve(ctx context.Context, l net.Listener, h http.Handler, flush func(context.Context) error) error {
	server := &http.Server{Handler: h} //nolint:gosec // no timeouts: timers would be work per request
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		within, cancel := context.WithTimeout(context.Background(), requestsEnd)
		if shutdownErr := server.Shutdown(within); shutdownErr != nil {
			err = fmt.Errorf("requests were cut off: %w", errors.Join(shutdownErr, server.Close()))
		}
		cancel()
		<-ended
	}
	within, cancel := context.WithTimeout(context.Background(), spansEnd)
	defer cancel()
	if flushErr := flush(within); flushErr != nil {
		err = errors.Join(err, fmt.Errorf("flush the last spans: %w", flushErr))
	}
	return err
}
