// Command build makes what the services of package polyglot run, as far as it can be had, and says what is missing and
// why: it installs packages of the distribution, runs build.sh, and lists the services. It is run by `make polyglot`
// in the directory of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"text/tabwriter"

	"github.com/tare-trace/tare/workloads"
	"github.com/tare-trace/tare/workloads/polyglot"
)

func main() {
	list := flag.Bool("list", false, "list the services only")
	bin := flag.String("bin", "bin", "directory of Tare's executables; what is built goes to polyglot below it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if !*list {
		if err := workloads.Ensure(ctx, os.Stderr, workloads.PolyglotRequirements()); err != nil {
			fmt.Fprintln(os.Stderr, err) // what is missing is listed below
		}
		cmd := exec.CommandContext(ctx, "workloads/polyglot/build.sh", *bin+"/polyglot") //nolint:gosec // our own
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	missing := 0
	_, _ = fmt.Fprintln(w, "service\tworks for a request\tlinked today\twhat could link it\tmissing")
	for _, s := range polyglot.All() {
		why := ""
		if err := workloads.Absent("polyglot-"+s.Name, *bin); err != nil {
			why = err.Error()
			missing++
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.Worker, s.Today, s.By, why)
	}
	_ = w.Flush()
	fmt.Printf("%d services, %d of them are missing something\n", len(polyglot.All()), missing)
}
