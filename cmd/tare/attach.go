package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/runtimes/attach"
)

// attachCommand loads a shim into a process that runs.
func attachCommand() *cobra.Command {
	jar := ""
	c := &cobra.Command{
		Use:   "attach PID",
		Short: "load a shim into a running process, where its runtime allows that, so that its calls can be linked",
		Long: `Load the shim of runtimes/ into a process that runs: a JVM. Of Node.js and Python it says how to load theirs at start.
The process goes on as before if that fails. The agent finds the shim within a minute.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid <= 0 {
				return cli.Usagef("%q is not the number of a process", args[0])
			}
			if jar == "" {
				self, err := os.Executable()
				if err != nil {
					return fmt.Errorf("find tare-java.jar beside this program: %w", err)
				}
				jar = filepath.Join(filepath.Dir(self), "tare-java.jar")
			}
			if err := attach.Process(cmd.Context(), pid, jar); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "process %d has the shim\n", pid)
			return err
		},
	}
	c.Flags().StringVar(&jar, "jar", "", "the JVM's shim, as make shims builds it (default: tare-java.jar beside this program)")
	return c
}
