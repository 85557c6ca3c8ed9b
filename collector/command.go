package collector

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/otelcol"

	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/internal/cli"
)

// Command is `tare collector`. Version is tare's.
func Command(version string) *cobra.Command {
	o := Options{Version: version}
	cmd := &cobra.Command{
		Use:   "collector",
		Short: "Receive spans, assemble and check traces, store them or pass them on",
		Long: `Receives spans by OTLP, groups them into traces and checks whether these
are complete, decides which to keep (tail sampling), and stores them and shows them
on a page, or passes them on to any backend. It is an OpenTelemetry Collector with
components of Tare's own; --config names configurations as for any other.

Without --config it listens on this machine only: OTLP on ports 4317 (gRPC) and
4318 (HTTP), the page on http://127.0.0.1:4680; the store is in
/var/lib/tare/store for root, else in ~/.local/state/tare/store. "tare collector
print-config" prints that configuration, from which you can start your own.

SIGHUP reads the configuration again.`,
		Example: `  tare collector
  tare collector --set extensions.tare_store.retention.age=1d
  tare collector --config gateway.yaml --config file:secrets.yaml
  tare collector validate --config gateway.yaml`,
		Args: cobra.NoArgs,
	}
	uris := sourceFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Config = uris()
		o.Ready = func() {
			if len(o.Config) == 0 {
				cmd.PrintErrln("tare collector: ready; the page is at http://127.0.0.1:4680; OTLP at 127.0.0.1:4317 (gRPC) and :4318 (HTTP)")
			}
		}
		return Run(cmd.Context(), o)
	}
	cmd.AddCommand(validateCommand(version), componentsCommand(version), printCommand(version))
	return cmd
}

// sourceFlags adds the flags that name the configuration. The function it returns gives
// their values as URIs, none for the default configuration.
func sourceFlags(cmd *cobra.Command, o *Options) func() []string {
	var files, sets []string
	cmd.Flags().StringArrayVar(&files, "config", nil,
		"a configuration: a path, file:PATH, env:NAME or yaml:TEXT; may be repeated, later ones win")
	cmd.Flags().StringArrayVar(&sets, "set", nil,
		"one property, overriding the configuration: processors.batch.timeout=2s; may be repeated")
	cmd.Flags().BoolVar(&o.Plaintext, "plaintext", false,
		"let receivers listen without TLS on addresses that are not loopback: only where the network itself is trusted")
	gates := flag.NewFlagSet("", flag.ContinueOnError)
	featuregate.GlobalRegistry().RegisterFlags(gates)
	cmd.Flags().AddGoFlagSet(gates)
	// The framework's own text and default list every gate: pages of them.
	if f := cmd.Flags().Lookup("feature-gates"); f != nil {
		f.Usage, f.DefValue = "`gates` of the framework's features to turn on, or off with a - before them; commas between", ""
	}
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, s := range sets {
			if key, _, ok := strings.Cut(s, "="); !ok || key == "" {
				return cli.Usagef("--set %s: write it as a.property=value", s)
			}
		}
		return nil
	}
	return func() []string {
		if len(files) == 0 && len(sets) == 0 {
			return nil
		}
		uris := files
		if len(files) == 0 {
			uris = []string{"yaml:" + DefaultConfig}
		}
		for _, s := range sets {
			key, value, _ := strings.Cut(s, "=")
			uris = append(uris, "yaml:"+strings.TrimSpace(strings.ReplaceAll(key, ".", "::"))+": "+strings.TrimSpace(value))
		}
		return uris
	}
}

func validateCommand(version string) *cobra.Command {
	o := Options{Version: version}
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration without running it",
		Long: `Checks a configuration and builds its pipelines without starting them. It cannot
find what only starting shows, such as a port in use or a missing certificate.`,
		Args: cobra.NoArgs,
	}
	uris := sourceFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Config = uris()
		col, err := otelcol.NewCollector(o.settings())
		if err != nil {
			return err
		}
		if err := col.DryRun(cmd.Context()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
		return err
	}
	return cmd
}

// componentsCommand is the framework's command.
func componentsCommand(version string) *cobra.Command {
	cmd := framework(Options{Version: version}, "components")
	cmd.Short = "List the components that a configuration can name"
	return cmd
}

func printCommand(version string) *cobra.Command {
	o := Options{Version: version}
	var full bool
	cmd := &cobra.Command{
		Use:   "print-config",
		Short: "Print the default configuration, or the result of a given one",
		Long: `Without flags, prints the default configuration. With --config, --set or --full,
prints the merged configuration, including the default of every setting. Secrets
are left out.`,
		Args: cobra.NoArgs,
	}
	uris := sourceFlags(cmd, &o)
	cmd.Flags().BoolVar(&full, "full", false, "with every default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Config = uris()
		if len(o.Config) == 0 && !full {
			_, err := io.WriteString(cmd.OutOrStdout(), DefaultConfig)
			return err
		}
		inner := framework(o, "print-config")
		inner.SetContext(cmd.Context())
		var out bytes.Buffer
		inner.SetOut(&out)
		if err := inner.RunE(inner, nil); err != nil {
			return err
		}
		_, err := io.WriteString(cmd.OutOrStdout(), guard.Hide(out.String()))
		return err
	}
	return cmd
}

// framework returns a command of the framework's own program.
func framework(o Options, name string) *cobra.Command {
	all := otelcol.NewCommand(o.settings())
	for _, c := range all.Commands() {
		if c.Name() == name {
			all.RemoveCommand(c)
			return c
		}
	}
	panic("otelcol has no command " + name) // tests run all commands, so that a new version of the framework shows it
}
