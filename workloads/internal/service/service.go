// Package service is what the instrumented services have in common: reading
// their environment, listening and ending, the OpenTelemetry SDK as its
// documentation sets it up, and the pages that say what really runs (/config,
// /health, /metrics, /debug/pprof/). It refuses to add to the work of a
// request: nothing of it runs within one, except the SDK itself.
package service

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a service until SIGTERM or SIGINT, and exits: with status 1 and a
// message if run returns an error.
func Main(name string, run func(ctx context.Context, env *Env) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, NewEnv(os.Getenv))
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
