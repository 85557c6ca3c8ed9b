package run

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/run/internal/settings"
)

// Command is `tare run`.
func Command() *cobra.Command {
	opts := Defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Trace this host and show it: agent, collector, store and page in one process",
		Long: `Traces the services of this host that flags, a file or the environment select, as
"tare agent" does, and receives OTLP from instrumented services; groups spans into
traces, checks and stores them, and serves a page that shows them.

Tracing needs root. If no service is selected, only OTLP is received. Ctrl-C stores
the spans received so far and stops; a second one stops at once. A change of the
agent's file takes effect without a gap; SIGHUP reads all configuration again and
restarts the collector's components, while the agent goes on tracing.`,
		Example: `  sudo tare run --port 80 --port shop=8080
  sudo tare run --exe '*/nginx' --sampler-arg 0.01 --retention 1d --max-size 2GiB
  tare run --store /tmp/traces`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) {
				cfg, err := config.Load(cmd.Flags(), os.Environ())
				if cfg.Retro.On() && len(cfg.Retro.Endpoints) == 0 {
					cfg.Retro.Endpoints = opts.Coordinator()
				}
				return cfg, err
			}
			cfg, err := load()
			switch {
			case err == nil:
				opts.Agent, opts.Reload = &cfg, load
			case !errors.Is(err, config.ErrNoServices):
				return cli.Usage(err)
			case !opts.OTLP:
				return cli.Usagef("nothing would be traced or received: %w", err)
			default:
				cmd.PrintErrln("tare run: no service is selected, so only OTLP is received; to trace services of this host: sudo tare run --port 8080 (or --exe, --cgroup, --config)")
			}
			if err := opts.Validate(); err != nil {
				return cli.Usage(err)
			}
			level := slog.LevelInfo
			if opts.Verbose {
				level = slog.LevelDebug
			}
			opts.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			opts.Version = agent.Version
			return Run(cmd.Context(), opts, cmd.ErrOrStderr())
		},
	}
	cli.Reloads(cmd)
	f := cmd.Flags()
	config.Flags(f)
	cli.CompleteFlags(cmd, config.Choices())
	f.StringVar(&opts.Store, "store", opts.Store, "`directory` of the stored traces")
	f.StringVar(&opts.Page, "page", opts.Page, `address of the page and its API, or "none"; an address that is not loopback needs authentication and TLS, by --collector-config`)
	duration.Var(f, &opts.Retention, "retention", "how long traces are kept")
	f.StringVar(&opts.MaxSize, "max-size", opts.MaxSize, "maximum size of the store on disk; the oldest traces are removed first")
	f.BoolVar(&opts.OTLP, "otlp", opts.OTLP, "also receive OTLP, by gRPC at 127.0.0.1:4317 and HTTP at 127.0.0.1:4318")
	f.StringVar(&opts.Metrics, "collector-listen", opts.Metrics, `address of the collector's own /metrics, or "none"`)
	f.StringVar(&opts.Retro, "retro-listen", opts.Retro, `address at which other agents of this host hear which traces are kept retroactively, or "none"; one that is not loopback needs TLS, by --collector-config`)
	f.StringVar(&opts.CollectorConfig, "collector-config", "", "collector configuration `file`, merged over the flags' settings: docs/collector.md")
	f.BoolVarP(&opts.Verbose, "verbose", "v", false, "log more")
	return cmd
}

// Defaults are the options of `tare run` without flags.
func Defaults() Options {
	return Options{Settings: settings.Settings{
		// The default of `tare collector`.
		Store:     storeextension.NewFactory().CreateDefaultConfig().(*storeextension.Config).Directory,
		Page:      "127.0.0.1:4680",
		Retention: 7 * 24 * time.Hour,
		MaxSize:   "10GiB",
		OTLP:      true,
		Metrics:   "127.0.0.1:8888",
		Retro:     "127.0.0.1:4319",
	}}
}
