package demo

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/workloads"
)

// Command is `tare demo`.
func Command() *cobra.Command {
	opts := Defaults()
	noInstall, exit := false, false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Trace a chain of real services and measure what it costs",
		Long: `Starts a chain of real services on this machine, without tracing of their own, traces it with the
agent, and prints one trace, the fidelity of all traces against the numbers
that the requests carry, and the cost: interleaved rounds with and without
the agent, in random order. Then it traces the chain with "tare run" and serves
the page until Ctrl-C; --exit and --json end before that. Installs the packages
that are missing, needs root, and leaves nothing behind.`,
		Example: `  sudo tare demo
  sudo tare demo --chain nginx --sample 0.01 --requests 100000
  sudo tare demo --rounds 0 --requests 1000 --json`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Install = !noInstall
			if exit {
				opts.Page = ""
			}
			return Run(cmd.Context(), opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.Chain, "chain", opts.Chain, "services to trace: "+strings.Join(workloads.WithShape(), ", "))
	cli.CompleteFlags(cmd, map[string][]string{"chain": workloads.WithShape()})
	f.Uint64Var(&opts.Requests, "requests", opts.Requests, "requests of the fidelity run")
	f.IntVar(&opts.Concurrency, "concurrency", opts.Concurrency, "connections, with one request in flight on each")
	f.Float64Var(&opts.Sample, "sample", opts.Sample, "share of requests to trace, 0 to 1")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "rounds of the cost measurement, 0 for none; below 6 there is no interval worth reading")
	duration.Var(f, &opts.Window, "window", "length of a measured window; a round has three")
	f.BoolVar(&opts.JSON, "json", opts.JSON, "print one JSON object instead of text")
	f.StringVar(&opts.Page, "page", opts.Page, "address of the page in the end")
	f.BoolVar(&exit, "exit", false, "end after the report, without the page")
	f.BoolVar(&noInstall, "no-install", noInstall, "fail instead of installing missing packages")
	return cmd
}
