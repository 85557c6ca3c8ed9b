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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func made(t *testing.T, name, profile string, change func(*record.Manifest, []record.Run)) (*record.Manifest, []record.Run, *analysis.Summary) {
	t.Helper()
	e, err := experiment.Open(name)
	require.NoError(t, err)
	m, runs, err := analysistest.Make(e, profile, analysistest.Model{Seed: 7, Noise: 0.03, Factor: func(_, _, _ string, rate float64, metric string) float64 {
		if metric == record.CPUService {
			return 1 + 0.3*rate
		}
		return 1
	}})
	require.NoError(t, err)
	if change != nil {
		change(m, runs)
	}
	s, err := analysis.Analyse(m, runs)
	require.NoError(t, err)
	return m, runs, s
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	require.NoError(t, err)
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
		require.NoError(t, err, "%s", name)
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
		assert.True(t, strings.HasPrefix(l[1], "#"), "%s refers to %q", name, l[0])
	}
	assert.Equal(t, "", fetch.FindString(page), name)
	there := map[string]bool{}
	for _, id := range ids.FindAllStringSubmatch(page, -1) {
		if there[id[1]] {
			t.Errorf("%s has the id %q twice", name, id[1])
		}
		there[id[1]] = true
	}
	for _, l := range internal.FindAllStringSubmatch(page, -1) {
		assert.True(t, there[l[1]], "%s: there is no #%s", name, l[1])
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "<no value>", "%!"} {
		assert.NotContains(t, page, bad, name)
	}
}

func TestReportsOfAllShippedExperiments(t *testing.T) {
	all, err := experiment.Shipped()
	require.NoError(t, err)
	for _, e := range all {
		for profile := range e.Profiles {
			t.Run(e.Name+" "+profile, func(t *testing.T) {
				t.Parallel()
				testReport(t, e, profile)
			})
		}
	}
}

func testReport(t *testing.T, e *experiment.Experiment, profile string) {
	m, runs, s := made(t, e.Name, profile, nil)
	dir := t.TempDir()
	if profile != "quick" { // its page has each section that those of other profiles have
		require.NoError(t, WritePage(dir, m, s))
		checkShort(t, dir, s)
		return
	}
	require.NoError(t, Write(dir, m, s, runs))
	checkShort(t, dir, s)
	page := read(t, dir, "report.html")
	checkPage(t, e.Name, page)
	// The first screen answers each question, and shows one figure.
	first, _, _ := strings.Cut(html.UnescapeString(page), "<nav")
	for _, a := range s.Answers {
		assert.Contains(t, first, a.Sentence(), "%s has no answer on the first screen", a.ID)
	}
	if drawn := strings.Count(first, "<svg"); drawn > 1 || drawn == 0 && strings.Contains(page, "<svg") {
		t.Errorf("the first screen shows %d figures", drawn)
	}
	for tracer, n := range e.Profiles[profile].RoundsOf {
		assert.Contains(t, page, fmt.Sprintf("(of %s %d); in each", tracer, n))
	}
	for _, f := range s.Figures {
		if len(f.Panels) > 0 && !strings.Contains(page, `id="`+anchor("figure-", f.ID)+`"`) {
			t.Errorf("figure %s is not in the page", f.ID)
		}
	}
	for _, c := range s.Cells {
		assert.Contains(t, page, c.Name)
	}
	var back analysis.Summary
	if err := json.Unmarshal([]byte(read(t, dir, "summary.json")), &back); err != nil || back.Experiment != e.Name {
		t.Errorf("summary.json: %v", err)
	}
}

// checkShort wants the short page to be short, to answer each question, and to show a
// figure that is there, of those that are worth it.
func checkShort(t *testing.T, dir string, s *analysis.Summary) {
	t.Helper()
	md := read(t, dir, "report.md")
	assert.LessOrEqual(t, strings.Count(md, "\n"), 60)
	for _, a := range s.Answers {
		want := "- **" + escape(a.ID) + ": " + escape(a.Ask) + "** " + escape(a.Sentence())
		assert.Contains(t, md, want, "report.md")
	}
	shown := pictures.FindAllStringSubmatch(md, -1)
	svgs, err := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
	if err != nil || len(svgs) != len(shown) || len(svgs) > 2 {
		t.Errorf("report.md shows %d figures, and there are %q: %v", len(shown), svgs, err)
	}
	for _, p := range shown {
		text := read(t, dir, p[1])
		parse(t, p[1], text)
		if len(text) > maxFigure || !strings.Contains(text, "sans-serif") || strings.Contains(text, "font-family:") {
			t.Errorf("%s is of %d bytes, and its text has a generic font: %t", p[1], len(text), strings.Contains(text, "sans-serif"))
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s holds no numbers", p[1])
		}
	}
}

var pictures = regexp.MustCompile(`\]\((figures/[^)]*)\)`)

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
	require.NoError(t, Write(dir, m, s, runs))
	page := read(t, dir, "report.html")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
		t.Error("the page holds markup of the data")
	}
	assert.Contains(t, page, "&lt;script&gt;", "the page lost the text")
	if md := read(t, dir, "report.md"); strings.Contains(md, "<script") || strings.Contains(md, "<img") {
		t.Error("the Markdown holds markup of the data")
	}
	checkShort(t, dir, s)
	for n := 2; n <= len(m.Experiment.Figures); n++ {
		assert.Contains(t, page, fmt.Sprintf(` id="%s-%d"`, anchor("figure-", evil), n))
	}
	svgs, _ := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
	for _, svg := range svgs {
		text := read(t, svg)
		parse(t, svg, text)
		assert.NotContains(t, text, "<script", "%s holds markup of the data", svg)
	}
}

func TestTracersThatNeedAnotherKernelAreNamed(t *testing.T) {
	m, runs, s := made(t, "chainscope-nginx", "quick", func(m *record.Manifest, _ []record.Run) {
		m.NotOffered = map[string]string{"tare-no-payload": "attach: not supported"}
	})
	dir := t.TempDir()
	require.NoError(t, Write(dir, m, s, runs))
	_, text, ok := strings.Cut(read(t, dir, "report.html"), "What another kernel would add")
	for _, want := range []string{m.Machine.Kernel, "tare-no-payload", "tare that reads no payload", "1%, 100%", "attach: not supported"} {
		if !ok || !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if short := read(t, dir, "report.md"); !regexp.MustCompile(`left out: .*tare-no-payload.* says why`).MatchString(short) {
		t.Errorf("the short page does not name it:\n%s", short)
	}
}

func TestEveryNumberOfTheTablesHasItsInterval(t *testing.T) {
	m, _, s := made(t, "coroot", "quick", nil)
	v := newView(m, s)
	for _, c := range v.Cells {
		for _, r := range c.Rows {
			assert.True(t, strings.HasPrefix(r.About, "n="), "%s has no n: %q", r.Name, r.About)
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
	require.NoError(t, Write(dir, m, s, runs))
	first := read(t, dir, "report.html")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "figures", "figure-old.svg"), []byte("<svg/>"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results.jsonl"), []byte("raw"), 0o644))
	require.NoError(t, Write(dir, m, s, runs))
	assert.Equal(t, first, read(t, dir, "report.html"), "equal records give another page")
	assert.Equal(t, "raw", read(t, dir, "results.jsonl"), "the raw results were touched")
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	require.NoError(t, err)
	if got, want := strings.Join(names, " "), "figure-n1.svg report.html report.md results.jsonl summary.json"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestWriteRefusesWhatItCannotWrite(t *testing.T) {
	m, runs, s := made(t, "null", "smoke", nil)
	assert.NoError(t, Write(filepath.Join(t.TempDir(), "not", "there"), m, s, runs), "a directory that is not there")
	for _, c := range []struct {
		m *record.Manifest
		s *analysis.Summary
	}{{nil, s}, {&record.Manifest{}, s}, {m, nil}} {
		assert.Error(t, Write(t.TempDir(), c.m, c.s, runs), "wrote a report of %v and %v", c.m, c.s)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, Write(file, m, s, runs), "wrote a report into a file")
}

func TestFindingsForATerminal(t *testing.T) {
	m, _, s := made(t, "coroot", "smoke", nil)
	var b bytes.Buffer
	WriteFindings(&b, m, s)
	for _, want := range []string{m.Experiment.Title, fmt.Sprintf("%d of %d measured runs count", s.Runs.MeasuredKept, s.Runs.Measured), "profile smoke", "note: These numbers are made up.", s.Smoke, s.Answers[0].Ask, s.Answers[0].Sentence(), "95% interval"} {
		assert.Contains(t, b.String(), want)
	}
}
