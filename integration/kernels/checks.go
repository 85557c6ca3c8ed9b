package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A check is a row of the table: a test function that runs in every guest.
type check struct {
	what string // it shows
	pkg  string // directory of the test, "" for doctor
	test string
	args string // of the agent, besides what the test gives it
	// needs is a capability: where doctor is expected to say that it is lost, the
	// check is left out, and the table says so.
	needs string
}

const (
	kernelTests = "agent/kernel"
	wholeTests  = "integration"
)

var checks = []check{
	{what: "`tare doctor` finds what is expected", test: "doctor"},
	{what: "the verifier accepts every program of every tier", pkg: kernelTests, test: "TestVerifierAccepts"},
	{what: "every tier attaches what the table says", pkg: kernelTests, test: "TestProgramsOfTier"},
	{what: "`make demo`: a trace, the tables, the page", pkg: wholeTests, test: "TestDemo"},
	{what: "both chains, every request sampled", pkg: wholeTests, test: "TestEveryRequest"},
	{what: "both chains, one of ten sampled", pkg: wholeTests, test: "TestOneOfTen"},
	{what: "failed requests that were not sampled are kept", pkg: wholeTests, test: "TestRetroKeepsFailed"},
	{what: "both chains in tier `kprobe`, every request sampled", pkg: wholeTests, test: "TestEveryRequest", args: "--tier kprobe"},
	{what: "started under load: open connections are armed", pkg: wholeTests, test: "TestStartedUnderLoad", needs: "open_connections"},
	{what: "the same by way of `--arm-open nv`", pkg: wholeTests, test: "TestStartedUnderLoad", args: "--arm-open nv"},
	{what: "killed while it arms so: every connection has its congestion control", pkg: wholeTests, test: "TestKilledWhileArming", args: "--arm-open nv"},
	{what: "TLS, every way of connecting", pkg: wholeTests, test: "TestTLS"},
	{what: "payload off", pkg: wholeTests, test: "TestPayloadOff"},
	{what: "`traceparent` adopted", pkg: wholeTests, test: "TestTraceparentAdopted"},
	{what: "pipelining", pkg: wholeTests, test: "TestPipelining"},
	{what: "1 MB in and 1 MB out by sendfile", pkg: wholeTests, test: "TestLargeBodies"},
	{what: "a connection for each request", pkg: wholeTests, test: "TestWithoutKeepAlive"},
	{what: "`kill -9` under load leaves nothing behind", pkg: wholeTests, test: "TestKilledUnderLoad"},
	{what: "the clock is set, everything stands still for a while", pkg: wholeTests, test: "TestClockSteps"},
	{what: "two hosts, IPv4 and IPv6, 2% of packets lost", pkg: wholeTests, test: "TestTwoHostsWithLoss"},
	{what: "nothing towards networks that are not trusted", pkg: wholeTests, test: "TestUntrustedNetworkSeesNothing"},
	{what: "peers tell that they are traced", pkg: wholeTests, test: "TestTracedPeers"},
	{what: "services that fork, exec and start again", pkg: wholeTests, test: "TestServiceRestarted"},
	{what: "haproxy, linked by a queue", pkg: wholeTests, test: "TestHAProxy"},
	{what: "Go: net/http, goroutines", pkg: wholeTests, test: "TestGoProxy"},
	{what: "stream offsets equal at both ends", pkg: wholeTests, test: "TestStreamOffsets", needs: "open_connections"},
}

// slowness is TARE_TEST_SLOW of guests: emulation on a busy machine.
const slowness = 10

func (c *check) key() string { return strings.TrimSpace(c.test + " " + c.args) }

// matching are the checks whose keys a pattern matches.
func matching(pattern string) ([]check, error) {
	p, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the tests: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !p.MatchString(c.key()) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no test matches %q: see integration/kernels/checks.go", pattern)
	}
	return chosen, nil
}

// binary is a package's compiled tests.
func binary(pkg string) string { return strings.ReplaceAll(pkg, "/", "-") + ".test" }

// script runs checks, those of one package and with the same arguments by one process. A
// line tells which arguments the tests have that follow.
func script(chosen []check) string {
	var b strings.Builder
	b.WriteString("export CI=true TARE_TEST_BUILT=1 TARE_TEST_SLOW=" + fmt.Sprint(slowness) + "\n")
	seen := map[string]bool{}
	for _, first := range chosen {
		group := first.pkg + " " + first.args
		if seen[group] {
			continue
		}
		seen[group] = true
		if first.pkg == "" {
			b.WriteString("bin/tare-agent doctor --json >/out/doctor.json\n")
			continue
		}
		var tests []string
		for _, c := range chosen {
			if c.pkg == first.pkg && c.args == first.args {
				tests = append(tests, c.test)
			}
		}
		fmt.Fprintf(&b, "echo '%s%s'\n", argsMark, first.args)
		// By its absolute path, as go test runs it: some tests start their own binary as a service.
		fmt.Fprintf(&b, "(cd %s && TARE_TEST_ARGS='%s' \"$OLDPWD/bin/%s\" -test.v -test.timeout 0 -test.run '^(%s)$')\n", first.pkg, first.args,
			binary(first.pkg), strings.Join(tests, "|"))
	}
	b.WriteString("true\n") // what failed is in the output
	return b.String()
}

const argsMark = "=== ARGS "

// A listener follows what tests write.
type listener struct {
	done func(key, result, seconds, log string)

	args, rest string
	log        strings.Builder // of the test that runs
}

var (
	began = regexp.MustCompile(`^=== RUN   \w+$`)
	ended = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\w+) \((.*)s\)$`)
)

func (l *listener) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, whole := strings.Cut(l.rest, "\n")
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		l.line(line)
	}
}

func (l *listener) line(line string) {
	if args, ok := strings.CutPrefix(line, argsMark); ok {
		l.args = args
	}
	if began.MatchString(line) {
		l.log.Reset()
	}
	l.log.WriteString(line + "\n")
	if m := ended.FindStringSubmatch(line); m != nil {
		l.done(strings.TrimSpace(m[2]+" "+l.args), strings.ToLower(m[1]), m[3], l.log.String())
	}
}
