package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/span/text"
)

// WeighCommand is `tare weigh`.
func WeighCommand() *cobra.Command {
	agent, long, asJSON := config.Default().Listen, weighFor, false
	cmd := &cobra.Command{
		Use:   "weigh",
		Short: "Say what a running agent costs, service by service",
		Long: `Asks a running agent (tare agent, tare run) to time its kernel programs, and says
what they take for each service and each of its requests, and what the agent itself
takes. Meanwhile each run of a kernel program reads the clock three times, which is
taken off. What the kernel takes to call a program is not within:
"tare bench run weight" measures that, too.`,
		Example: `  tare weigh
  tare weigh --for 10s --json
  tare weigh --agent 127.0.0.1:9465`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if long < weighLeast || long > weighMost {
				return cli.Usagef("--for %v: give a duration from %v to %v", long, weighLeast, weighMost)
			}
			if _, _, err := net.SplitHostPort(agent); err != nil {
				return cli.Usagef("--agent %q: give the address that the agent's --listen has, such as %s", agent, config.Default().Listen)
			}
			w, err := askWeight(cmd.Context(), agent, long)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(w)
			}
			return w.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", agent, "address of the agent's /metrics")
	cmd.Flags().DurationVar(&long, "for", long, "how long to time the kernel programs")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object of JSON")
	return cmd
}

// askWeight asks the agent at an address.
func askWeight(ctx context.Context, agent string, long time.Duration) (*weight, error) {
	ctx, cancel := context.WithTimeout(ctx, long+time.Minute)
	defer cancel()
	at := url.URL{Scheme: "http", Host: agent, Path: weightPath, RawQuery: url.Values{"for": {long.String()}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, cli.Usage(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no agent listens at %s: start one (sudo tare agent), or give --agent the address that its --listen has", agent)
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", agent, err)
	}
	if answer.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("what listens at %s is no agent of Tare that can weigh", agent)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %.200s", at.String(), answer.Status, strings.TrimSpace(string(body)))
	}
	var w weight
	if err := json.Unmarshal(body, &w); err != nil || w.CPUs == 0 {
		return nil, fmt.Errorf("what listens at %s is no agent of Tare that can weigh", agent)
	}
	return &w, nil
}

func (w *weight) print(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "service\trequests/s\tkernel µs/request\tkernel CPUs\t")
	for _, s := range w.Services {
		each := "-"
		if s.PerRequest > 0 {
			each = fmt.Sprintf("%.2f", s.PerRequest/1e3)
		}
		_, _ = fmt.Fprintf(t, "%s\t%.1f\t%s\t%.4f\t\n", text.Visible(s.Name), s.Requests, each, s.Cores)
	}
	_, _ = fmt.Fprintf(t, "(not traced)\t\t\t%.4f\t\n", w.OtherCores) // errors come with Flush
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "\nagent: %.4f CPUs, %.1f MiB, %.1f spans/s, %.1f kB/s exported; %.4g%% of traces are sampled\nin all: %.4f of %d CPUs (%.2f%%), in %.1f s\n",
		w.Agent.Cores, float64(w.Agent.Memory)/(1<<20), w.Agent.Spans, w.Agent.Bytes/1e3, 100*w.Sampled, w.Cores, w.CPUs, 100*w.Share, w.Seconds)
	return err
}
