package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A column is what one kernel's guest found.
type column struct {
	Kernel  string `json:"kernel"`
	Release string `json:"release"`
	Version string `json:"version"` // of Debian's package
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Tier    string `json:"tier"` // that the agent chooses
	// Walked are the instructions that the verifier walked, of the largest program of
	// each tier that loads.
	Walked map[string]int `json:"walked,omitempty"`
	Cells  []cell         `json:"cells"`
}

type cell struct {
	What   string `json:"what"`
	Test   string `json:"test"`
	Result string `json:"result"`
}

// Results of a cell, besides what go test says.
const (
	pass   = "pass"
	fail   = "fail"
	notRun = "not run"
)

// matrix runs checks in every kernel, some at once, and gives what they found.
func matrix(ctx context.Context, cache string, kernels []kernel, chosen []check, o options) ([]column, error) {
	for _, arch := range architectures(kernels) {
		if err := build(ctx, arch, chosen); err != nil {
			return nil, err
		}
	}
	columns := make([]column, len(kernels))
	errs := make([]error, len(kernels))
	free := make(chan struct{}, o.parallel)
	var wait sync.WaitGroup
	for i, k := range kernels {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if columns[i], errs[i] = runChecks(ctx, cache, k, chosen, o); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", k, errs[i])
			}
		})
	}
	wait.Wait()
	return columns, errors.Join(errs...)
}

func architectures(kernels []kernel) (archs []string) {
	for _, k := range kernels {
		if !slices.Contains(archs, k.arch) {
			archs = append(archs, k.arch)
		}
	}
	return archs
}

// build makes what runs in guests of an architecture.
func build(ctx context.Context, arch string, chosen []check) error {
	dir := binaries(arch)
	commands := [][]string{{"make", "--no-print-directory", "build", "BIN=" + dir}}
	for _, c := range chosen {
		argv := []string{"go", "test", "-vet=off", "-trimpath", "-c", "-o", filepath.Join(dir, binary(c.pkg)), "./" + c.pkg}
		if c.pkg != "" && !slices.ContainsFunc(commands, func(other []string) bool { return slices.Equal(argv, other) }) {
			commands = append(commands, argv)
		}
	}
	for _, argv := range commands {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GOARCH="+arch)
		if _, err := output(cmd); err != nil {
			return err
		}
	}
	return nil
}

func runChecks(ctx context.Context, cache string, k kernel, chosen []check, o options) (column, error) {
	want, err := expected(k)
	if err != nil && !(o.update && errors.Is(err, os.ErrNotExist)) {
		return column{}, err
	}
	col := column{Kernel: k.String(), Date: time.Now().Format(time.DateOnly), Commit: commit(ctx)}
	var inGuest []check
	for _, c := range chosen {
		result := notRun
		if c.needs != "" && want != nil && want.lacks(c.needs) {
			result = "without " + c.needs
		} else {
			inGuest = append(inGuest, c)
		}
		col.Cells = append(col.Cells, cell{c.what, c.key(), result})
	}
	g, err := prepare(ctx, cache, k, false)
	if err != nil {
		return col, err
	}
	defer func() { _ = os.RemoveAll(g.out) }()
	col.Release, col.Version = g.release, g.version
	say := func(format string, args ...any) { fmt.Printf(k.String()+": "+format+"\n", args...) }
	l := &listener{done: func(key, result, seconds, log string) {
		col.set(key, result)
		say("%s %s, %s s", key, result, seconds)
		if result != pass {
			say("%s wrote:\n%s", key, log)
		}
		if strings.HasPrefix(key, "TestVerifierAccepts") {
			col.Walked = walked(log)
		}
	}}
	log, err := os.Create(filepath.Join(logs, k.String()+".log"))
	if err != nil {
		return col, err
	}
	defer func() { _ = log.Close() }()
	say("Linux %s, Debian %s; output: %s", g.release, g.version, log.Name())
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("after %v", o.timeout))
	defer cancel()
	if _, err := g.run(ctx, script(inGuest), io.MultiWriter(log, l)); err != nil {
		return col, err
	}
	return col, col.judge(g, k, want, o.update, say)
}

// judge takes doctor's part of the results, and tells whether all is well.
func (col *column) judge(g *guest, k kernel, want *diagnosis, update bool, say func(string, ...any)) error {
	if i := slices.IndexFunc(col.Cells, func(c cell) bool { return c.Test == "doctor" }); i >= 0 {
		got, err := diagnosed([]byte(g.read("doctor.json")))
		if err != nil {
			return err
		}
		col.Tier = got.Tier
		if update {
			if err := os.WriteFile(expectedFile(k), []byte(got.text()), 0o644); err != nil {
				return err
			}
			want = got
		}
		col.Cells[i].Result = pass
		if d := differences(want, got); d != "" {
			col.Cells[i].Result = fail
			say("doctor says otherwise than %s; with -update it is written anew:\n%s", expectedFile(k), d)
		}
	}
	var wrong []string
	for _, c := range col.Cells {
		if c.Result == fail || c.Result == notRun || c.Result == "skip" {
			wrong = append(wrong, c.Test+" "+c.Result)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

func (col *column) set(key, result string) {
	for i := range col.Cells {
		if col.Cells[i].Test == key {
			col.Cells[i].Result = result
		}
	}
}

var (
	ofTier = regexp.MustCompile(`^=== RUN   TestVerifierAccepts/(\w+)$`)
	steps  = regexp.MustCompile(`tare_\w+ +(\d+) instructions walked`)
)

// walked reads the numbers of the largest programs from the verifier's test.
func walked(log string) map[string]int {
	most, tier := map[string]int{}, ""
	for line := range strings.Lines(log) {
		if m := ofTier.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			tier = m[1]
		}
		if m := steps.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			most[tier] = max(most[tier], n)
		}
	}
	return most
}

func commit(ctx context.Context) string {
	text, err := output(exec.CommandContext(ctx, "git", "describe", "--always", "--dirty"))
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(text)
}

// record puts columns into the file of results, in place of those of the same kernels.
func record(file string, columns []column) error {
	var all []column
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var merged []column
	for _, k := range kernels {
		of := func(c column) bool { return c.Kernel == k.String() && c.Release != "" }
		if i := slices.IndexFunc(columns, of); i >= 0 {
			merged = append(merged, columns[i])
		} else if i := slices.IndexFunc(all, of); i >= 0 {
			merged = append(merged, all[i])
		}
	}
	if text, err = json.MarshalIndent(merged, "", " "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
