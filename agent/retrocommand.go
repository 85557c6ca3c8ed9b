package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/retro"
	"github.com/tare-trace/tare/internal/cli"
)

// RetroCommand is `tare retro`.
func RetroCommand() *cobra.Command {
	agent := config.Default().Listen
	cmd := &cobra.Command{
		Use:   "retro",
		Short: "Keep traces that were not sampled, of an agent with --retro",
		Long: `An agent with --retro remembers requests that were not sampled for some seconds. These commands
ask it to keep their traces, which go to where its spans go.`,
	}
	cmd.PersistentFlags().StringVar(&agent, "agent", agent, "address of the agent's /metrics")

	service, ago := "", 10*time.Second
	capture := &cobra.Command{
		Use:     "capture",
		Short:   "Keep the traces of all requests that a service received in the last seconds",
		Example: "  tare retro capture --service shop --for 10s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case service == "":
				return cli.Usagef("--service: name a service of the agent, as its spans do")
			case ago <= 0 || ago > maxCapture:
				return cli.Usagef("--for %v: give a duration up to %v", ago, maxCapture)
			}
			var got captured
			if err := askRetro(cmd, agent, capturePath, map[string]any{"service": service, "seconds": ago.Seconds()}, &got); err != nil {
				return err
			}
			if got.Traces == 0 {
				return fmt.Errorf("the agent remembers no request of the service %q in the last %v that is not kept already", service, ago)
			}
			cmd.Printf("%d traces are kept\n", got.Traces)
			if got.Traces == retro.MaxCaptured {
				cmd.Printf("there are more: no more than %d are kept at once\n", retro.MaxCaptured)
			}
			return nil
		},
	}
	capture.Flags().StringVar(&service, "service", "", "name of the service")
	capture.Flags().DurationVar(&ago, "for", ago, "how long back")

	keepTrace := &cobra.Command{
		Use:     "keep TRACE_ID",
		Short:   "Keep a trace by its id",
		Example: "  tare retro keep 4bf92f3577b34da6a3ce929d0e0e4736",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askRetro(cmd, agent, keepPath, map[string]any{"trace_id": args[0]}, nil)
		},
	}
	cmd.AddCommand(capture, keepTrace)
	return cmd
}

// askRetro asks the agent at an address.
func askRetro(cmd *cobra.Command, agent, path string, ask, answer any) error {
	if _, _, err := net.SplitHostPort(agent); err != nil {
		return cli.Usagef("--agent %q: give the address that the agent's --listen has, such as %s", agent, config.Default().Listen)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "http", Host: agent, Path: path}
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return cli.Usage(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no agent listens at %s: start one (sudo tare agent --retro 64MiB), or give --agent the address that its --listen has", agent)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer of %s: %w", agent, err)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the agent at %s has no retroactive sampling: start it with --retro 64MiB", agent)
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s answers %s: %.200s", at.String(), resp.Status, strings.TrimSpace(string(text)))
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("what listens at %s is no agent of Tare: %w", agent, err)
	}
	return nil
}
