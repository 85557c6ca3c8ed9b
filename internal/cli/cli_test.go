package cli

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tare", Version: "1"}
	group := &cobra.Command{Use: "bench"}
	run := &cobra.Command{
		Use: "run EXPERIMENT", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return Usagef("which?")
			}
			return errors.New("it broke")
		},
	}
	run.Flags().Int("rounds", 1, "")
	CompleteFlags(run, map[string][]string{"rounds": {"6", "20"}})
	group.AddCommand(run)
	collector := &cobra.Command{Use: "collector", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return ErrSaid }}
	collector.AddCommand(&cobra.Command{Use: "validate", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }})
	root.AddCommand(group, collector)
	return root
}

func execute(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	root := tree()
	Prepare(root)
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(args)
	_, err = root.ExecuteC()
	return b.String(), err
}

func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"frobnicate":           `unknown command "frobnicate" for "tare"`,
		"bnech":                "did you mean bench?",
		"bench rum":            "did you mean run?",
		"bench run a b":        "at most 1 arg",
		"bench run":            "which?",
		"bench run --no":       "unknown flag",
		"bench run --rounds x": "invalid argument",
		"collector valdate":    "did you mean validate?",
		"collector validate x": "unknown command",
		"version x":            "unknown command",
		"completion klingon":   "unknown command",
		"help bnech":           "did you mean bench?",
		"help bench rum":       "did you mean run?",
	} {
		_, err := execute(t, strings.Fields(line)...)
		var misuse usage
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error of usage with %q", line, err, want)
		}
	}
	for line, want := range map[string]error{"bench run x": nil, "collector": ErrSaid} {
		_, err := execute(t, strings.Fields(line)...)
		var misuse usage
		if err == nil || errors.As(err, &misuse) || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v; want a failure", line, err)
		}
	}
	for _, line := range []string{"", "bench", "collector validate", "bench run --help", "help", "help bench", "help bench run"} {
		if _, err := execute(t, strings.Fields(line)...); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestVersion(t *testing.T) {
	command, err := execute(t, "version")
	assert.NoError(t, err)
	flag, err := execute(t, "--version")
	if err != nil || command != flag || !strings.HasPrefix(flag, "tare 1, commit ") {
		t.Errorf("version: %q, --version: %q, %v", command, flag, err)
	}
}

func TestCompletion(t *testing.T) {
	out, err := execute(t, "__complete", "bench", "run", "--rounds", "")
	if lines := strings.Split(out, "\n"); err != nil || !slices.Contains(lines, "6") || !slices.Contains(lines, "20") {
		t.Errorf("%v:\n%s", err, out)
	}
}
