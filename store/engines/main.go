// Command engines compares Tare's store with engines that it could be built on,
// by the same spans: how fast durable batches go in, how much room they take,
// how fast traces, searches and quantiles come out, what an engine adds to a
// binary, how much memory it takes, and what is there after kill -9.
//
// Every engine runs in a process of its own, on one CPU, in interleaved rounds;
// an answer that differs from Tare's ends the comparison. It is a module of its
// own, so that Tare does not depend on what was not chosen, and needs a C
// compiler. It does not look for the best settings of an engine: engines are set
// up as their documents say for such data, each in a file of its name.
//
// `make store-engines` runs it and writes the table of the decision,
// docs/adr/0012-a-store-on-pebble.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if child := children[args[0]]; child != nil {
			return child(ctx, args[1:])
		}
	}
	var c comparison
	flags := flag.NewFlagSet("engines", flag.ContinueOnError)
	flags.IntVar(&c.spans, "spans", 1_000_000, "spans to store, rounded up to whole batches, at least 100000")
	flags.IntVar(&c.rounds, "rounds", 6, "rounds; an interval of 95% needs 6")
	flags.StringVar(&c.dir, "dir", os.TempDir(), "where the engines' directories are made and removed: a file system on the disk that counts")
	only := flags.String("only", "", "part of an engine's name: leave out the others")
	out := flags.String("json", "", "file to write the results to")
	flags.StringVar(&c.commit, "commit", "", "commit to note in the results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.spans < 100_000 || c.rounds < 1 || flags.NArg() > 0 {
		return errors.New("--spans must be at least 100000 and --rounds at least 1, and there are no arguments")
	}
	for i := range candidates {
		if strings.Contains(candidates[i].name, *only) {
			c.engines = append(c.engines, &candidates[i])
		}
	}
	if len(c.engines) == 0 {
		return fmt.Errorf("no engine has %q in its name", *only)
	}
	r, err := c.run(ctx)
	if err != nil {
		return err
	}
	fmt.Print(r.table())
	if *out == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}
