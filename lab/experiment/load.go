package experiment

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed shipped/*.yaml
var shipped embed.FS

// Shipped lists the experiments that come with the program, by name.
func Shipped() ([]*Experiment, error) {
	files, err := shipped.ReadDir("shipped")
	if err != nil {
		return nil, err
	}
	var all []*Experiment
	for _, f := range files {
		b, err := shipped.ReadFile(path.Join("shipped", f.Name()))
		if err != nil {
			return nil, err
		}
		e, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("shipped experiment %s: %w", f.Name(), err)
		}
		all = append(all, e)
	}
	return all, nil
}

// Open reads a shipped experiment by its name, or a file by its path: a name with
// a slash, or that ends with .yaml or .yml, is a path. A file must pass the
// checks, too; all errors are returned together.
func Open(name string, checks ...func(*Experiment) error) (*Experiment, error) {
	if !strings.ContainsRune(name, os.PathSeparator) && !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		all, err := Shipped()
		if err != nil {
			return nil, err
		}
		var names []string
		for _, e := range all {
			if e.Name == name {
				return e, nil
			}
			names = append(names, e.Name)
		}
		return nil, fmt.Errorf("no experiment %q: there are %s, or give the path of a file", name, strings.Join(names, ", "))
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("experiment file: %w", err)
	}
	e, err := Parse(b, checks...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// Parse reads an experiment file; every key must be known, and every name that
// refers to a part of the file must be defined there.
func Parse(b []byte, checks ...func(*Experiment) error) (*Experiment, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var e Experiment
	switch err := dec.Decode(&e); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the experiment is empty: docs/bench.md walks through one")
	case err != nil:
		return nil, fmt.Errorf("%w (docs/bench.md lists the keys)", err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("one experiment per file: there is a second document")
	}
	errs := []error{e.validate()}
	for _, check := range checks {
		errs = append(errs, check(&e))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &e, nil
}

// ProfileNames lists the profiles: smoke, quick and full first, then the others
// by name.
func (e *Experiment) ProfileNames() []string {
	usual := []string{"smoke", "quick", "full"}
	var names []string
	for _, n := range usual {
		if _, ok := e.Profiles[n]; ok {
			names = append(names, n)
		}
	}
	var others []string
	for n := range e.Profiles {
		if !slices.Contains(usual, n) {
			others = append(others, n)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

// Placeholders are replaced in values of environments and command lines.
type Placeholders struct {
	Rate     float64
	OTLP     string // http://host:port of the sink
	OTLPAddr string // host:port of the sink
	Listen   string // host:port that nobody listens on, for a tracer that services send to
	Round    int    // from 0: the runs of a round have the same
}

// Expand replaces {rate}, {otlp}, {otlp_addr}, {listen} and {round}. It leaves {host} and {port},
// which package workloads replaces.
func (p Placeholders) Expand(s string) string {
	return strings.NewReplacer("{rate}", FormatRate(p.Rate), "{otlp}", p.OTLP, "{otlp_addr}", p.OTLPAddr, "{listen}", p.Listen, "{round}", strconv.Itoa(p.Round)).Replace(s)
}
