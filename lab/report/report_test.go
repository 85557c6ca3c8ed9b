package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func made(t *testing.T, name, profile string, change func(*record.Manifest, []record.Run)) (*record.Manifest, []record.Run, *analysis.Summary) {
	t.Helper()
	e, err := experiment.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	m, runs, err := analysistest.Make(e, profile, analysistest.Model{Seed: 7, Noise: 0.03, Factor: func(_, _, _ string, rate float64, metric string) float64 {
		if metric == record.CPUService {
			return 1 + 0.3*rate
		}
		return 1
	}})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(m, runs)
	}
	s, err := analysis.Analyse(m, runs)
	if err != nil {
		t.Fatal(err)
	}
	return m, runs, s
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parse walks the whole of an XML document.
func parse(t *testing.T, name, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

var (
	link     = regexp.MustCompile(`(?i)(?:src|href|action|data)\s*=\s*["']?([^"'\s>]*)`)
	fetch    = regexp.MustCompile(`(?i)url\s*\(|@import|<script|<link|<iframe|<object|<embed|<img|<image|<use|<foreignObject|\son[a-z]+\s*=`)
	internal = regexp.MustCompile(`href="#([^"]*)"`)
	ids      = regexp.MustCompile(` id="([^"]*)"`)
)

func checkPage(t *testing.T, name, page string) {
	t.Helper()
	for _, l := range link.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(l[1], "#") {
			t.Errorf("%s refers to %q", name, l[0])
		}
	}
	if hit := fetch.FindString(page); hit != "" {
		t.Errorf("%s holds %q", name, hit)
	}
	there := map[string]bool{}
	for _, id := range ids.FindAllStringSubmatch(page, -1) {
		if there[id[1]] {
			t.Errorf("%s has the id %q twice", name, id[1])
		}
		there[id[1]] = true
	}
	for _, l := range internal.FindAllStringSubmatch(page, -1) {
		if !there[l[1]] {
			t.Errorf("%s: there is no #%s", name, l[1])
		}
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "<no value>", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("%s holds %q", name, bad)
		}
	}
}

func TestReportsOfAllShippedExperiments(t *testing.T) {
	all, err := experiment.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		for profile := range e.Profiles {
			name := e.Name + " " + profile
			m, runs, s := made(t, e.Name, profile, nil)
			dir := t.TempDir()
			if err := Write(dir, m, s, runs); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			page := read(t, dir, "report.html")
			checkPage(t, name, page)
			md := read(t, dir, "report.md")
			checkMarkdown(t, name, dir, md)
			// The first screen answers each question, and shows one figure.
			first, _, _ := strings.Cut(html.UnescapeString(page), `<section class="found">`)
			for _, a := range s.Answers {
				if !slices.ContainsFunc(a.Claims, func(c analysis.ClaimAnswer) bool { return c.First && strings.Contains(first, c.Short) }) {
					t.Errorf("%s: %s has no answer on the first screen", name, a.ID)
				}
			}
			if drawn := strings.Count(first, "<svg"); drawn > 1 || drawn == 0 && strings.Contains(page, "<svg") {
				t.Errorf("%s: the first screen shows %d figures", name, drawn)
			}
			for tracer, n := range e.Profiles[profile].RoundsOf {
				if want := fmt.Sprintf("(of %s %d); in each", tracer, n); !strings.Contains(md, want) {
					t.Errorf("%s: %q is not in the report", name, want)
				}
			}
			for _, f := range s.Figures {
				if len(f.Panels) > 0 && !strings.Contains(page, `id="`+anchor("figure-", f.ID)+`"`) {
					t.Errorf("%s: figure %s is not in the page", name, f.ID)
				}
			}
			for _, c := range s.Cells {
				if !strings.Contains(page, c.Name) || !strings.Contains(md, escape(c.Name)) {
					t.Errorf("%s: the cell %s is not in the reports", name, c.Name)
				}
			}
			svgs, err := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
			if err != nil {
				t.Fatal(err)
			}
			for _, svg := range svgs {
				text := read(t, svg)
				parse(t, svg, text)
				if strings.Count(text, "sans-serif") != strings.Count(text, "<text") {
					t.Errorf("%s: some text names no generic font", svg)
				}
				if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Errorf("%s holds no numbers", svg)
				}
			}
			var back analysis.Summary
			if err := json.Unmarshal([]byte(read(t, dir, "summary.json")), &back); err != nil || back.Experiment != e.Name {
				t.Errorf("%s: summary.json: %v", name, err)
			}
		}
	}
}

// checkMarkdown wants every row of a table to have as many cells as its head, and
// every picture to be there.
func checkMarkdown(t *testing.T, name, dir, md string) {
	t.Helper()
	cells := func(line string) int {
		return strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
	}
	head := 0
	for _, line := range strings.Split(md, "\n") {
		if !strings.HasPrefix(line, "|") {
			head = 0
			continue
		}
		if head == 0 {
			head = cells(line)
		}
		if cells(line) != head {
			t.Errorf("%s: a row of %d cells under a head of %d: %s", name, cells(line)-1, head-1, line)
		}
	}
	for _, p := range regexp.MustCompile(`\]\((figures/[^)]*)\)`).FindAllStringSubmatch(md, -1) {
		read(t, dir, p[1])
	}
	headings := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(md, -1) {
		headings[slug(html.UnescapeString(strings.ReplaceAll(h[1], `\`, "")))] = true
	}
	for _, l := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(md, -1) {
		if !headings[l[1]] {
			t.Errorf("%s: no heading has the anchor %s", name, l[1])
		}
	}
}

// Names come from an experiment file, which may be anyone's.
func TestNothingOfTheDataIsTakenForMarkup(t *testing.T) {
	const evil = `<script>alert(1)</script>"'|<img src=x onerror=y>`
	m, runs, s := made(t, "coroot", "quick", func(m *record.Manifest, runs []record.Run) {
		e := m.Experiment
		e.Title, e.Description = evil, evil
		for i := range e.Figures {
			e.Figures[i].ID, e.Figures[i].Title, e.Figures[i].Source = evil, evil, evil
		}
		for i := range e.Questions {
			e.Questions[i].ID, e.Questions[i].Ask = evil+string(rune('a'+i)), evil
			e.Questions[i].Claims[0].Source = evil
		}
		e.Tracers[0].Title, m.Machine.Model, m.Machine.Kernel, m.Versions[evil] = evil, evil, evil, evil
		m.Notes = []string{evil}
		m.LeftOut = map[string]string{evil: evil}
		m.NotOffered = map[string]string{e.Tracers[1].Name: evil}
		for i := range runs {
			runs[i].Lost = map[string]uint64{evil: 3}
			runs[i].Errors = map[string]uint64{evil: 3}
			for j := range runs[i].Shares {
				runs[i].Shares[j].Category += evil
			}
		}
		runs[3].Failed = evil
	})
	dir := t.TempDir()
	if err := Write(dir, m, s, runs); err != nil {
		t.Fatal(err)
	}
	page := read(t, dir, "report.html")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
		t.Error("the page holds markup of the data")
	}
	if !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the page lost the text")
	}
	if md := read(t, dir, "report.md"); strings.Contains(md, "<script") || strings.Contains(md, "<img") {
		t.Error("the Markdown holds markup of the data")
	} else {
		checkMarkdown(t, "evil", dir, md)
	}
	svgs, _ := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
	if len(svgs) != len(m.Experiment.Figures) {
		t.Errorf("%d files for %d figures of one id", len(svgs), len(m.Experiment.Figures))
	}
	for _, svg := range svgs {
		text := read(t, svg)
		parse(t, svg, text)
		if strings.Contains(text, "<script") {
			t.Errorf("%s holds markup of the data", svg)
		}
	}
}

func TestTracersThatNeedAnotherKernelAreNamed(t *testing.T) {
	m, runs, s := made(t, "chainscope-nginx", "quick", func(m *record.Manifest, _ []record.Run) {
		m.NotOffered = map[string]string{"tare-no-payload": "attach: not supported"}
	})
	dir := t.TempDir()
	if err := Write(dir, m, s, runs); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html", "report.md"} {
		_, text, ok := strings.Cut(read(t, dir, name), "What another kernel would add")
		for _, want := range []string{m.Machine.Kernel, "tare-no-payload", "tare that reads no payload", "1%, 100%", "attach: not supported"} {
			if !ok || !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}

func TestEveryNumberOfTheTablesHasItsInterval(t *testing.T) {
	m, runs, s := made(t, "coroot", "quick", nil)
	v, err := newView(m, s, runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Cells {
		for _, r := range c.Rows {
			if !strings.HasPrefix(r.About, "n=") {
				t.Errorf("%s has no n: %q", r.Name, r.About)
			}
			for _, x := range r.Values {
				if x.Middle != "–" && x.Interval == "" || x.Effect != "" && x.Effect != "the same" && x.Range == "" {
					t.Errorf("%s %s: %+v", c.Name, r.Name, x)
				}
			}
		}
	}
	for _, f := range v.Figures {
		for _, r := range f.Data.Rows {
			if r[4] == "" || r[5] == "" {
				t.Errorf("figure %s: %v", f.ID, r)
			}
		}
	}
}

// A report that is written again replaces the first, and leaves nothing of it.
func TestWritingAgain(t *testing.T) {
	m, runs, s := made(t, "null", "quick", nil)
	dir := t.TempDir()
	if err := Write(dir, m, s, runs); err != nil {
		t.Fatal(err)
	}
	first := read(t, dir, "report.html")
	if err := os.WriteFile(filepath.Join(dir, "figures", "figure-old.svg"), []byte("<svg/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "results.jsonl"), []byte("raw"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, m, s, runs); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "report.html") != first {
		t.Error("equal records give another page")
	}
	if read(t, dir, "results.jsonl") != "raw" {
		t.Error("the raw results were touched")
	}
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names, " "), "figure-n1.svg figure-n2.svg report.html report.md results.jsonl summary.json"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestWriteRefusesWhatItCannotWrite(t *testing.T) {
	m, runs, s := made(t, "null", "smoke", nil)
	if err := Write(filepath.Join(t.TempDir(), "not", "there"), m, s, runs); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	for _, c := range []struct {
		m *record.Manifest
		s *analysis.Summary
	}{{nil, s}, {&record.Manifest{}, s}, {m, nil}} {
		if err := Write(t.TempDir(), c.m, c.s, runs); err == nil {
			t.Errorf("wrote a report of %v and %v", c.m, c.s)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, m, s, runs); err == nil {
		t.Error("wrote a report into a file")
	}
}

func TestFindingsForATerminal(t *testing.T) {
	m, _, s := made(t, "coroot", "smoke", nil)
	var b bytes.Buffer
	WriteFindings(&b, m, s)
	for _, want := range []string{m.Experiment.Title, fmt.Sprintf("%d of %d measured runs count", s.Runs.MeasuredKept, s.Runs.Measured), "profile smoke", "note: These numbers are made up.", s.Smoke, s.Answers[0].Ask, s.Answers[0].Claims[0].Short} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}
