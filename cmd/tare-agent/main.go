// Command tare-agent is the agent alone, for nodes that send their spans elsewhere: `tare
// agent` and `tare doctor` without the collector, whose packages take memory as soon as
// they are linked (docs/adr/0014).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/doctor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	root := agent.Command()
	root.Use = "tare-agent"
	named := strings.NewReplacer("tare agent", "tare-agent", "tare doctor", "tare-agent doctor")
	root.Long, root.Example = named.Replace(root.Long), named.Replace(root.Example)
	root.Version = agent.Version
	root.SilenceUsage, root.SilenceErrors = true, true
	root.AddCommand(doctor.Command())
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, doctor.ErrCannotRun) { // the report has the reasons
			fmt.Fprintln(os.Stderr, "tare-agent:", err)
		}
		stop()
		os.Exit(1)
	}
}
