package agent

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/internal/cli"
)

// Command is `tare agent`. in opens a cluster, nil if this program cannot.
func Command(in NewCluster) *cobra.Command {
	verbose := false
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Trace the services of this host and export OTLP spans",
		Long: `Traces the services of this host that a configuration file, environment variables or
flags select. Exports OpenTelemetry spans by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT, or
prints traces. Services are not changed.

Needs root, or CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE and
CAP_DAC_READ_SEARCH; "tare doctor" shows what this kernel allows. SIGHUP, or a change of
the configuration file, reloads it without a gap.`,
		Example: `  sudo tare agent --port 80 --port shop=8080 --sampler-arg 0.01
  sudo tare agent --exe '*/nginx' --print tree
  sudo tare agent --config /etc/tare.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return cli.Usage(err)
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			return Run(cmd.Context(), Options{
				Config: cfg, Cluster: in,
				Reload: func() (config.Config, error) { return config.Load(cmd.Flags(), os.Environ()) },
				Stdout: cmd.OutOrStdout(),
				Log:    slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
			})
		},
	}
	cli.Reloads(cmd)
	config.Flags(cmd.Flags())
	cli.CompleteFlags(cmd, config.Choices())
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
