package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is what a binary says of itself: name, version, commit, Go and platform.
func Version(root *cobra.Command) string {
	return fmt.Sprintf("%s %s, commit %s, %s, %s/%s", root.Name(), root.Version, cmp.Or(Commit(), "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Commit is the revision that this program was built from, if it is known.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
