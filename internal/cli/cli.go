// Package cli runs the commands of Tare's binaries, so that all say the same of the same: an
// unknown command or flag, a value out of range and a missing argument are errors of usage and
// make the exit status 2, a failure makes it 1; an error of usage names the help that answers it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/span/text"
)

// Exit statuses.
const (
	failed  = 1
	misused = 2
)

type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// Usage marks an error of whoever gave the command.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usage{err}
}

// Usagef is Usage of an error with this text.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Input opens a file that a command is to read; "-" is its standard input, which stays open.
func Input(name string, in io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(in), nil
	}
	return os.Open(name)
}

// ErrSaid makes the exit status 1 and prints nothing: what was printed before has the reasons.
var ErrSaid = errors.New("the command has said why it failed")

// Reloads marks a command that obeys SIGHUP: Main keeps what comes before the command is
// ready for Hangups.
func Reloads(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[reloads] = ""
}

const reloads = "reloads"

// Drains marks a command, with those below it, that ends orderly after a signal and may need time for that: it sends
// what waits, or ends what it started. Every other command ends within a second, whatever it waits for.
func Drains(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[drains] = ""
	return cmd
}

const (
	drains = "drains"
	grace  = 700 * time.Millisecond
)

// mayDrain reports whether the command that the arguments name Drains.
func mayDrain(root *cobra.Command, args []string) bool {
	of, _, err := root.Find(args)
	for cmd := of; err == nil && cmd != nil && (cmd == of || cmd.HasParent()); cmd = cmd.Parent() {
		if _, ok := cmd.Annotations[drains]; ok {
			return true
		}
	}
	return false
}

var hangups = make(chan os.Signal, 1)

// Hangups are the SIGHUPs to a command that Reloads, from its beginning on.
func Hangups() <-chan os.Signal { return hangups }

// catch has SIGHUP kept if the command obeys it: for others, it ends them.
func catch(root *cobra.Command, args []string) {
	if cmd, _, err := root.Find(args); err == nil {
		if _, ok := cmd.Annotations[reloads]; ok {
			signal.Notify(hangups, syscall.SIGHUP)
		}
	}
}

// Main runs the command that the arguments name, until it ends or a signal comes, and returns
// the exit status. The first signal ends the command's context and, unless it Drains, soon the process; a second
// signal kills the process at once.
func Main(root *cobra.Command) int {
	catch(root, os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	waits := mayDrain(root, os.Args[1:])
	context.AfterFunc(ctx, func() {
		stop()
		if !waits {
			time.Sleep(grace) // Main may have returned by then, and the process be gone
			fmt.Fprintf(os.Stderr, "%s: ended by a signal\n", root.Name())
			os.Exit(failed)
		}
	})
	Prepare(root)
	// Names and errors of others must not write on a terminal. The log quotes them itself.
	said := text.NewWriter(os.Stderr)
	root.SetOut(text.NewWriter(os.Stdout))
	cmd, err := root.ExecuteContextC(ctx)
	var misuse usage
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrSaid):
		return failed
	case errors.As(err, &misuse):
		_, _ = fmt.Fprintf(said, "%s: %v\n%s --help says more\n", root.Name(), err, cmd.CommandPath())
		return misused
	}
	_, _ = fmt.Fprintf(said, "%s: %v\n", root.Name(), err)
	return failed
}

// extra are commands that other builds have.
var extra []func(root *cobra.Command) *cobra.Command

// Prepare gives a root command what all have: errors that are marked, groups of commands that
// refuse what they do not have, and the version with its commit.
func Prepare(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.SetVersionTemplate(Version(root) + "\n")
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version, with the commit that it was built from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), Version(root))
			return err
		},
	})
	for _, of := range extra {
		root.AddCommand(of(root))
	}
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.Run, help.RunE = nil, helpOn
	}
	prepare(root)
}

// helpOn shows the help of the command that the arguments name, and refuses what they do not.
func helpOn(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err == nil {
		err = unknown(of, rest)
	}
	if err != nil {
		return Usage(err)
	}
	return of.Help()
}

func prepare(c *cobra.Command) {
	args := c.Args
	switch {
	case !c.Runnable():
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		args = unknown
	case args == nil && c.HasSubCommands():
		args = unknown
	case c.HasSubCommands():
		given := args
		args = func(cmd *cobra.Command, list []string) error {
			if given(cmd, list) != nil {
				return unknown(cmd, list)
			}
			return nil
		}
	}
	if args != nil {
		c.Args = func(cmd *cobra.Command, list []string) error { return Usage(args(cmd, list)) }
	}
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// unknown refuses arguments of a command whose arguments are commands.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}
