package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// The commands of README.md and docs/ are run as they stand there. A fence's first word is its
// language, and a second one says why its commands are not run to their end: slow, or
// elsewhere, on a machine or with data that this one has not. Readers do not see it. Of these,
// and of what make builds and tests, it is checked that there are such commands and flags.
// Files of the agent are read as it reads them.

// block is what stands in a fence.
type block struct {
	where, lang, why string
	lines            []string
}

var (
	fence = regexp.MustCompile("^ *```([a-z]*) *([a-z]*)$")
	// commands of ours, which must not stand in a fence without a language.
	ours = regexp.MustCompile(`^(sudo (-E )?)?(bin/)?(tare|tare-agent|make) [a-z-]`)
	// serverCommand is one that runs until it is told to end.
	serverCommand = regexp.MustCompile(`(^|[ /])(tare-agent|tare (agent|run|collector))( -|\s*$)`)
	// serving is what they say when they are ready.
	serving = regexp.MustCompile(`msg=tracing|page: http|tare collector: ready|Everything is ready`)
	comment = regexp.MustCompile(`(^|\s+)#.*$`)
)

func blocks(t *testing.T) (all []block) {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{"../README.md"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var open *block
		for n, line := range strings.Split(string(text), "\n") {
			m := fence.FindStringSubmatch(line)
			switch {
			case m == nil && open != nil:
				open.lines = append(open.lines, line)
			case m != nil && open != nil:
				all, open = append(all, *open), nil
			case m != nil:
				open = &block{where: strings.TrimPrefix(file, "../") + ":" + itoa(n+1), lang: m[1], why: m[2]}
			}
		}
		if open != nil {
			t.Errorf("%s: the fence is not closed", open.where)
		}
	}
	return all
}

func TestDocuments(t *testing.T) {
	alone(t, "its commands start the host's agent, and trace every nginx")
	documents(t, func(b block) bool { return !ofBench(b) })
}

// Agents of the laboratory have instances of their own.
func TestDocumentsOfBench(t *testing.T) {
	t.Parallel()
	documents(t, ofBench)
}

func ofBench(b block) bool { return strings.HasPrefix(b.where, "docs/bench.md:") }

// documents runs what stands in the documents.
func documents(t *testing.T, of func(block) bool) {
	t.Helper()
	need(t, "python3", "make", "go")
	m := newMachine(t)
	m.file("/tmp/tools/sudo", "#!/bin/sh\n[ \"$1\" = -E ] && shift\nexec \"$@\"\n")
	if out, err := m.output("chmod", "755", "/tmp/tools/sudo"); err != nil {
		t.Fatal(err, out)
	}
	m.path = "/tmp/tools:" + m.path
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m.makefile = string(makefile)
	m.file("/etc/tare.yaml", "services: [{name: shop, ports: [8080]}]\n")
	m.serve(nil, "python3", m.file("/tmp/shop.py", shopScript))
	t.Cleanup(func() { _ = os.Remove("../docs/examples/hello/hello") })
	ran := 0
	for _, b := range blocks(t) {
		if !of(b) {
			continue
		}
		text := strings.Join(b.lines, "\n")
		switch {
		case b.lang == "" || b.lang == "text":
			for _, line := range b.lines {
				if ours.MatchString(line) {
					t.Errorf("%s: commands without a language are not run: %s", b.where, line)
				}
			}
		case b.lang == "go":
		case b.lang == "yaml" && b.why == "":
			ran++
			m.readFile(b.where, text)
		case b.lang == "sh" && (b.why == "" || b.why == "slow" || b.why == "elsewhere"):
			ran++
			m.runBlock(b)
		default:
			t.Errorf("%s: what is %s %s?", b.where, b.lang, b.why)
		}
	}
	if ran == 0 {
		t.Error("no block ran")
	}
}

// readFile reads the agent's file as the agent in a collector does, which it does not start; or a collector's extensions,
// which end with its service.
func (m *machine) readFile(where, text string) {
	m.t.Helper()
	receivers, service := "receivers:\n  tare_agent:\n    "+strings.ReplaceAll(text, "\n", "\n    "), "service:"
	if strings.HasPrefix(text, "extensions:") {
		receivers, service = "receivers: {tare_agent: {services: [{ports: [8080]}]}}", text
	}
	config := receivers + "\nexporters: {nop: }\n" + service +
		"\n  telemetry: {metrics: {level: none}}\n  pipelines: {traces: {receivers: [tare_agent], exporters: [nop]}}\n"
	if out, err := m.output("tare", "collector", "validate", "--config", m.file("/tmp/agent.yaml", config)); err != nil {
		m.t.Errorf("%s: %v: %s", where, err, out)
	}
}

// runBlock runs the lines of a block one after the other, from the directory that the lines
// before have changed to.
func (m *machine) runBlock(b block) {
	m.t.Helper()
	dir := absolute("..")
	var receiver *testkit.Child // a collector stays for the agents that come after it in the block
	end := func() {
		if receiver != nil {
			receiver.Stop()
		}
	}
	if text := strings.Join(b.lines, "\n"); b.why == "" && strings.Contains(text, "tare agent ") && !strings.Contains(text, "tare collector") {
		receiver = m.serving(b.where, "tare collector", "cd / && tare collector")
	}
	for _, line := range b.lines {
		command := strings.TrimSpace(comment.ReplaceAllString(line, ""))
		if to, ok := strings.CutPrefix(command, "cd "); ok {
			dir = filepath.Join(dir, to)
			continue
		}
		name := strings.NewReplacer("sudo ", "", "-E ", "", "bin/", "").Replace(command)
		if command == "" || m.ran[name] { // once is enough, in whichever directory
			continue
		}
		m.ran[name] = true
		script := "cd " + dir + " && "
		switch {
		case strings.HasPrefix(command, "make "):
			if target := strings.Fields(command)[1]; !strings.Contains(m.makefile, "\n"+target+":") {
				m.t.Errorf("%s: the Makefile has no target %s", b.where, target)
			}
			continue
		case b.why != "":
			script += command + " --help"
		case serverCommand.MatchString(command):
			c := m.serving(b.where, command, script+line)
			if strings.Contains(command, "tare collector") {
				receiver = c
			} else {
				c.Stop()
			}
			continue
		default:
			script += line
		}
		began := time.Now()
		out, err := m.output("bash", "-c", script)
		if err != nil {
			m.t.Errorf("%s: %s: %v\n%s", b.where, line, err, out)
		}
		m.t.Logf("%s: %s (%v)", b.where, command, time.Since(began).Round(time.Millisecond))
	}
	end()
}

// serving runs a server until it serves, and asks the service that it may trace.
func (m *machine) serving(where, command, script string) *testkit.Child {
	m.t.Helper()
	began := time.Now()
	c := m.start(nil, "bash", "-c", strings.Replace(script, "&& ", "&& exec env ", 1))
	c.Await(2*time.Minute, where+": "+command+" serves", func() bool {
		return serving.MatchString(c.Log.String()) && (!strings.Contains(command, "tare run") || strings.Contains(c.Log.String(), "msg=tracing"))
	})
	for range 3 {
		if _, err := m.get("http://127.0.0.1:8080/item"); err != nil {
			m.t.Error(err)
		}
	}
	m.t.Logf("%s: %s (%v)", where, command, time.Since(began).Round(time.Millisecond))
	return c
}
