package cli

import "github.com/spf13/cobra"

// CompleteFlag offers values of a flag to the shell.
func CompleteFlag(cmd *cobra.Command, name string, values func(cmd *cobra.Command) []string) {
	err := cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return values(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag: every use of the command shows it
	}
}

// CompleteFlags offers fixed values of flags.
func CompleteFlags(cmd *cobra.Command, values map[string][]string) {
	for name, list := range values {
		CompleteFlag(cmd, name, func(*cobra.Command) []string { return list })
	}
}
