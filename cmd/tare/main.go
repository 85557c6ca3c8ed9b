// Command tare is the one binary of Tare. Its parts are packages, whose commands it
// combines.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/cluster/kubernetes"
	"github.com/tare-trace/tare/collector"
	"github.com/tare-trace/tare/collector/storecommand"
	"github.com/tare-trace/tare/demo"
	"github.com/tare-trace/tare/diagnose"
	"github.com/tare-trace/tare/doctor"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/run"
	"github.com/tare-trace/tare/tracelog"
)

func main() {
	root := &cobra.Command{
		Use:     "tare",
		Short:   "Distributed tracing that knows its own weight",
		Version: agent.Version,
	}
	for _, c := range []*cobra.Command{agent.Command(kubernetes.Open), bench.Command(), collector.Command(agent.Version), demo.Command(), run.Command()} {
		root.AddCommand(cli.Drains(c))
	}
	root.AddCommand(agent.WeighCommand(), agent.RetroCommand(), attachCommand(), diagnose.Command(), doctor.Command(), tracelog.Command(), storecommand.Command())
	os.Exit(cli.Main(root))
}
