// Command notice writes NOTICE and docs/dependencies.md: what the published programs are
// made of, under which licences, who needs it, and what of it is not maintained any more.
// With -texts it writes the texts of the licences, which packages contain.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const own = "github.com/tare-trace/tare"

func main() {
	log.SetFlags(0)
	log.SetPrefix("notice: ")
	texts := flag.String("texts", "", "write the texts of all licences into this `file`, and nothing else")
	flag.Parse()
	list, err := modules(".")
	if err == nil && *texts != "" {
		err = os.WriteFile(*texts, list.texts(), 0o644) //nolint:gosec // for everybody
	} else if err == nil {
		for name, text := range list.files() {
			err = errors.Join(err, os.WriteFile(name, text, 0o644)) //nolint:gosec // for everybody
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// module is one that a published program contains.
type module struct {
	path, version, replaced string
	licences                []string
	files                   []string // of licences
	notice                  string   // its text, which the licence wants passed on
	agent                   bool     // tare-agent contains it, too
	by                      map[string]bool
}

type listing []*module

// modules asks go which modules the programs are made of.
func modules(dir string) (listing, error) {
	known := map[string]*module{}
	for _, program := range [][]string{{"./cmd/tare"}, {"-tags=kubernetes", "./cmd/tare-agent"}} {
		cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Module,Imports"}, program...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if err := add(known, out, len(program) > 1); err != nil {
			return nil, err
		}
	}
	var list listing
	for _, path := range slices.Sorted(maps.Keys(known)) {
		list = append(list, known[path])
	}
	return list, nil
}

type listed struct {
	ImportPath string
	Imports    []string
	Module     *struct {
		Path, Version, Dir string
		Replace            *struct{ Path, Version string }
	}
}

func add(known map[string]*module, out []byte, agent bool) error {
	var packages []listed
	of := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.Module == nil { // the standard library
			continue
		}
		packages = append(packages, p)
		of[p.ImportPath] = p.Module.Path
	}
	for _, p := range packages {
		path := p.Module.Path
		if path == own || strings.HasPrefix(path, own+"/") {
			continue
		}
		m := known[path]
		if m == nil {
			m = &module{path: path, version: p.Module.Version, by: map[string]bool{}}
			if r := p.Module.Replace; r != nil {
				m.replaced = r.Version
			}
			if err := m.read(p.Module.Dir); err != nil {
				return err
			}
			known[path] = m
		}
		m.agent = m.agent || agent
	}
	for _, p := range packages {
		for _, i := range p.Imports {
			if m := known[of[i]]; m != nil && of[i] != p.Module.Path {
				m.by[p.Module.Path] = true
			}
		}
	}
	return nil
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying)`)
	noticeFile  = regexp.MustCompile(`(?i)^notice`)
)

// read finds the licences in a module's directory.
func (m *module) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if e.IsDir() && strings.EqualFold(e.Name(), "licenses") { // texts that the licence refers to
			more, err := filepath.Glob(filepath.Join(file, "*.txt"))
			if err != nil {
				return err
			}
			m.files = append(m.files, more...)
		}
		if e.IsDir() || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		isNotice := noticeFile.MatchString(e.Name())
		if !isNotice && !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if isNotice {
			m.notice = strings.TrimSpace(string(text))
			continue
		}
		name := licence(string(text))
		if name == "" {
			return fmt.Errorf("%s %s: its licence, %s, is not one of those that are known here: read it, and add it to licence()", m.path, m.version, file)
		}
		m.files = append(m.files, file)
		if !slices.Contains(m.licences, name) {
			m.licences = append(m.licences, name)
		}
	}
	if m.licences == nil {
		return fmt.Errorf("%s %s has no licence", m.path, m.version)
	}
	slices.Sort(m.licences)
	return nil
}

// licence names a text by SPDX's identifier; "" for others than those that may be
// distributed together with Apache-2.0.
func licence(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("freetype-go software is subject to your choice"):
		return "FTL OR GPL-2.0-or-later"
	case has("spdx-license-identifier: bsd-3-clause or gpl-2.0-only"):
		return "BSD-3-Clause OR GPL-2.0-only"
	case has("mozilla public license"): // which names the GPL
		return "MPL-2.0"
	case has("gnu affero") || has("gnu general public license") && !has("apache license"):
		return ""
	case has("apache license") && has("version 2.0"):
		return "Apache-2.0"
	case has("sil open font license"):
		return "OFL-1.1"
	case has("redistribution and use in source and binary forms"):
		if has("neither the name") || has("to endorse or promote") {
			return "BSD-3-Clause"
		}
		return "BSD-2-Clause"
	case has("permission is hereby granted, free of charge"):
		return "MIT"
	case has("permission to use, copy, modify, and"):
		return "ISC"
	case has("unencumbered software released into the public domain"):
		return "Unlicense"
	case has("attribution 4.0 international"):
		return "CC-BY-4.0"
	case has("cc0 1.0"):
		return "CC0-1.0"
	case has("creativecommons.org/licenses/by/4.0"):
		return "CC-BY-4.0"
	case has("dedicated to the public domain"):
		return "public domain"
	}
	return ""
}

// unmaintained are modules whose authors have said that they do not go on with them.
var unmaintained = []struct{ prefix, state string }{
	{"github.com/gogo/", "deprecated by its authors since 2022"},
	{"github.com/mitchellh/", "archived by its author in 2024"},
	{"github.com/pkg/errors", "archived by its author in 2021"},
}

// files are the committed ones.
func (l listing) files() map[string][]byte {
	var notice, deps bytes.Buffer
	fmt.Fprint(&notice, "Tare\nCopyright the authors of Tare\n\nTare is licensed under Apache-2.0 (LICENSE); its kernel programs, bpf/, under GPL-2.0-only OR BSD-2-Clause.\n"+
		"The published programs contain the modules in docs/dependencies.md, under the licences named there. The packages\n"+
		"contain the texts of these licences. What their authors ask to be passed on follows.\n")
	for _, m := range l {
		if m.notice != "" {
			fmt.Fprintf(&notice, "\n---- %s\n%s\n", m.path, m.notice)
		}
	}
	count := map[string]int{}
	agent := 0
	for _, m := range l {
		count[strings.Join(m.licences, ", ")]++
		if m.agent {
			agent++
		}
	}
	fmt.Fprintf(&deps, "# What the programs are made of\nWritten by `make notice`; a test fails when it is not what `go.mod` says. Versions are pinned, with checksums, in `go.mod` and\n"+
		"`go.sum`; packages contain a list in CycloneDX's format (`sbom.cdx.json`) and the texts of the licences.\n"+
		"`make vulnerabilities` asks Go's database about them.\n\n%d modules, of which `tare-agent` has %d.\n\n| licence | modules |\n|---|---|\n", len(l), agent)
	for _, name := range slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return 2*(count[b]-count[a]) + strings.Compare(a, b)
	}) {
		fmt.Fprintf(&deps, "| %s | %d |\n", name, count[name])
	}
	fmt.Fprint(&deps, "\n## Not maintained any more\nNone of them is Tare's own choice: who needs them is in the last column.\n\n| module | state | needed by |\n|---|---|---|\n")
	for _, m := range l {
		for _, u := range unmaintained {
			if strings.HasPrefix(m.path, u.prefix) {
				fmt.Fprintf(&deps, "| %s | %s | %s |\n", m.path, u.state, strings.Join(slices.Sorted(maps.Keys(m.by)), " "))
			}
		}
	}
	fmt.Fprint(&deps, "\n## Behind `replace`\nModules that the public proxy does not hold at the version that the collector's v0.161.0 asks for: the nearest that it holds.\n\n| module | asked for | taken |\n|---|---|---|\n")
	for _, m := range l {
		if m.replaced != "" {
			fmt.Fprintf(&deps, "| %s | %s | %s |\n", m.path, m.version, m.replaced)
		}
	}
	fmt.Fprint(&deps, "\n## All\n| module | version | licence | in `tare-agent` |\n|---|---|---|---|\n")
	for _, m := range l {
		in := ""
		if m.agent {
			in = "yes"
		}
		fmt.Fprintf(&deps, "| %s | %s | %s | %s |\n", m.path, m.version, strings.Join(m.licences, ", "), in)
	}
	return map[string][]byte{"NOTICE": notice.Bytes(), filepath.Join("docs", "dependencies.md"): deps.Bytes()}
}

// texts are all licences; those that are equal once, below all modules that have them.
func (l listing) texts() []byte {
	var order []string
	by := map[string][]string{}
	for _, m := range l {
		for _, file := range m.files {
			text, err := os.ReadFile(file)
			if err != nil {
				log.Fatal(err)
			}
			if by[string(text)] == nil {
				order = append(order, string(text))
			}
			by[string(text)] = append(by[string(text)], m.path)
		}
	}
	var out bytes.Buffer
	for _, text := range order {
		fmt.Fprintf(&out, "==== %s\n\n%s\n", strings.Join(slices.Compact(by[text]), "\n==== "), strings.TrimSpace(text)+"\n")
	}
	return out.Bytes()
}
