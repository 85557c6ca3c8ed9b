// Command tare is the one binary of Tare. Its parts are packages, whose commands it
// combines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/collector"
	"github.com/tare-trace/tare/demo"
	"github.com/tare-trace/tare/diagnose"
	"github.com/tare-trace/tare/doctor"
	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal kills the process at once; processes that it has started notice
	// its death and clean up.
	context.AfterFunc(ctx, stop)
	root := &cobra.Command{
		Use:           "tare",
		Short:         "Distributed tracing that knows its own weight",
		Version:       agent.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(agent.Command(), attachCommand(), bench.Command(), collector.Command(agent.Version), demo.Command(), diagnose.Command(), doctor.Command(), run.Command())
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, doctor.ErrCannotRun) { // the report has the reasons
			fmt.Fprintln(os.Stderr, "tare:", err)
		}
		stop()
		os.Exit(1)
	}
}
