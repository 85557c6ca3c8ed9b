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
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	return Until(ctx, func() error { return server.Serve(l) }, func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(err, server.Close())
		}
		return nil
	}, flush)
}

// Until calls serve. When ctx ends it calls stop, which makes serve return and lets
// the requests under way come to their end within its own context. In the end it
// calls flush.
func Until(ctx context.Context, serve func() error, stop, flush func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		within, cancel := context.WithTimeout(context.Background(), requestsEnd)
		if stopErr := stop(within); stopErr != nil {
			err = fmt.Errorf("requests were cut off: %w", stopErr)
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
