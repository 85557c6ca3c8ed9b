// Command testtimes prints what tests took, slowest first, from files that
// `go test -json` wrote: seconds, CPU seconds of the processes that the test
// started, and what it waited for longest.
//
// CPU seconds and waits are attributes that a test writes of itself ("cpu" and
// "waited", package testkit); a test without them has none in the table. The
// load and the receivers run in the test's own process, whose CPU time cannot
// be told apart by test: it is not counted.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	least := flag.Float64("least", 1, "leave out tests of less than so many seconds")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: testtimes [-least SECONDS] FILE…, files of `go test -json`")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *least, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "testtimes: %v\n", err)
		os.Exit(1)
	}
}

func run(files []string, least float64, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("no file of `go test -json` was given: run make test first")
	}
	t := times{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = t.read(f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return t.print(out, least)
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Key, Value string
	Elapsed                           float64
}

// test is a top-level test, with what its subtests say.
type test struct {
	name, result string
	seconds, cpu float64
	waits        map[string]float64
}

type times map[string]*test

// read adds what a file says.
func (t times) read(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var e event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if e.Test == "" {
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		name := e.Package[strings.LastIndexByte(e.Package, '/')+1:] + "." + top
		known := t[name]
		if known == nil {
			known = &test{name: name, waits: map[string]float64{}}
			t[name] = known
		}
		switch e.Action {
		case "attr":
			number, what, _ := strings.Cut(e.Value, " ")
			seconds, err := strconv.ParseFloat(number, 64)
			if err != nil {
				continue // an attribute of somebody else's
			}
			switch e.Key {
			case "cpu":
				known.cpu += seconds
			case "waited":
				known.waits[what] += seconds
			}
		case "pass", "fail", "skip":
			if !sub {
				known.result, known.seconds = e.Action, e.Elapsed
			}
		}
	}
}

func (t times) print(out io.Writer, least float64) error {
	all := make([]*test, 0, len(t))
	total, cpu := 0.0, 0.0
	for _, known := range t {
		total, cpu = total+known.seconds, cpu+known.cpu
		all = append(all, known)
	}
	slices.SortFunc(all, func(a, b *test) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	var table strings.Builder
	fmt.Fprintln(&table, "seconds\tCPU s\ttest\tresult\twaited for")
	left := 0
	for _, known := range all {
		if known.seconds < least {
			left++
			continue
		}
		fmt.Fprintf(&table, "%.1f\t%.1f\t%s\t%s\t%s\n", known.seconds, known.cpu, known.name, cmp.Or(known.result, "did not end"), known.longest())
	}
	fmt.Fprintf(&table, "%.1f\t%.1f\tall %d tests\t\t%d of less than %g s are left out\n", total, cpu, len(all), left, least)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, table.String()); err != nil {
		return err
	}
	return w.Flush()
}

// longest are the three waits that took longest.
func (t *test) longest() string {
	var whats []string
	for what := range t.waits {
		whats = append(whats, what)
	}
	slices.SortFunc(whats, func(a, b string) int { return cmp.Or(cmp.Compare(t.waits[b], t.waits[a]), cmp.Compare(a, b)) })
	for i, what := range whats {
		whats[i] = fmt.Sprintf("%.1f %s", t.waits[what], what)
	}
	return strings.Join(whats[:min(len(whats), 3)], ", ")
}
