//go:build man

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Only in the build that writes the manual pages: what writes them is large.
func init() { extra = append(extra, manual) }

func manual(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: Version(root), Manual: "Tare"}, args[0])
		},
	}
}
