package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// `tare doctor --peer` finds what happens to Tare's options behind a router, hop by hop, over IPv4 and IPv6:
//
//	a ── 203.0.113.0/30, 2001:db8:1::/126 ── router ── 198.51.100.4/30, 2001:db8:2::/126 ── b
func TestDoctorPath(t *testing.T) {
	t.Parallel()
	need(t, "ip", "nft", "sysctl", "python3")
	a, router, b := routedHosts(t)
	for _, at := range []struct{ name, host, hop string }{
		{"IPv4", "198.51.100.6", "203.0.113.2"},
		{"IPv6", "2001:db8:2::2", "2001:db8:1::2"},
	} {
		for _, c := range []struct {
			name, rule, listens string
			verdict, where      string
			options             []string
		}{
			{"both ends", "", "answer", "pass", "", []string{"intact", "reached"}},
			{"any server", "", "server", "unknown", "", []string{"intact", "reached"}},
			{"stripped on the way there", "iifname north meta l4proto tcp reset tcp option 25", "answer", "strip", "behind " + at.hop, []string{"intact", "reached"}},
			{"stripped on the way back", "iifname south meta l4proto tcp reset tcp option 25", "answer", "strip", "on the way back", []string{"intact", "reached"}},
			{"dropped", "tcp option 25 exists drop", "server", "drop", "behind " + at.hop, nil},
		} {
			t.Run(at.name+", "+c.name, func(t *testing.T) {
				sh(t, "ip", "netns", "exec", router, "nft", "flush ruleset; add table inet middle; add chain inet middle on { type filter hook forward priority 0; }; "+ruleOf(c.rule))
				address := listens(t, b, at.host, c.listens)
				out, status := doctorPath(t, a, address)
				var r struct {
					Hops           []struct{ Address, Option string }
					MSS, Room      int
					Asked          bool
					Verdict, Where string
				}
				if err := json.Unmarshal(out, &r); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if r.Verdict != c.verdict || r.Where != c.where || r.Asked != (c.listens == "answer") || (status == 0) != (c.verdict == "pass" || c.verdict == "unknown") {
					t.Errorf("status %d, %+v, want %s %s", status, r, c.verdict, c.where)
				}
				if r.MSS < 1200 || r.Room < 26 || len(r.Hops) < 2 || r.Hops[0].Address != at.hop {
					t.Errorf("%+v", r)
				}
				for i, want := range c.options {
					if r.Hops[i].Option != want {
						t.Errorf("hop %d: %s, want %s", i+1, r.Hops[i].Option, want)
					}
				}
			})
		}
	}
	// Before the router, which then tells who it was.
	t.Run("stripped before the first hop", func(t *testing.T) {
		sh(t, "ip", "netns", "exec", router, "nft", "flush ruleset; add table inet middle; add chain inet middle on { type filter hook prerouting priority -300; }; "+
			ruleOf("iifname north meta l4proto tcp reset tcp option 25"))
		out, status := doctorPath(t, a, listens(t, b, "198.51.100.6", "server"))
		if !strings.Contains(string(out), `"where":"between this host and 203.0.113.2"`) || status != 1 {
			t.Errorf("status %d: %s", status, out)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		if out, status := doctorPath(t, a, "198.51.100.6:9"); status != 1 || len(out) != 0 {
			t.Errorf("status %d: %s", status, out)
		}
	})
}

func ruleOf(rule string) string {
	if rule == "" {
		return ""
	}
	return "add rule inet middle on " + rule
}

// routedHosts are two namespaces with a router between them.
func routedHosts(t *testing.T) (a, router, b string) {
	t.Helper()
	nth := anotherName()
	a, router, b = "tare-a-"+nth, "tare-r-"+nth, "tare-b-"+nth
	makeNamespaces(t, a, router, b)
	sh(t, "ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	for _, end := range []struct{ ns, dev, at4, at6, hop4, hop6 string }{
		{a, "north", "203.0.113.1", "2001:db8:1::1", "203.0.113.2", "2001:db8:1::2"},
		{b, "south", "198.51.100.6", "2001:db8:2::2", "198.51.100.5", "2001:db8:2::1"},
	} {
		sh(t, "ip", "-n", end.ns, "link", "add", cable, "type", "veth", "peer", "name", end.dev, "netns", router)
		plug(t, end.ns, cable, end.at4, end.at6)
		plug(t, router, end.dev, end.hop4, end.hop6)
		sh(t, "ip", "-n", end.ns, "route", "add", "default", "via", end.hop4)
		sh(t, "ip", "-n", end.ns, "-6", "route", "add", "default", "via", end.hop6)
	}
	return a, router, b
}

// listens starts what listens in the namespace, and returns its address.
func listens(t *testing.T, ns, host, what string) (address string) {
	t.Helper()
	address = host + ":" + itoa(testkit.FreePort(t))
	if strings.Contains(host, ":") {
		address = "[" + host + "]" + address[len(host):]
	}
	port := address[strings.LastIndexByte(address, ':')+1:]
	argv := []string{filepath.Join(bin, "tare-agent"), "doctor", "--answer", ":" + port}
	if what == "server" {
		argv = []string{"python3", "-m", "http.server", "--bind", "::", port}
	}
	cmd := exec.Command(program("ip"), append([]string{"netns", "exec", ns}, argv...)...) //nolint:gosec // the test's own
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", what, log.String())
		}
	})
	testkit.Until(t, time.Minute, what+" listens", func() bool {
		out, err := exec.Command(program("ip"), "netns", "exec", ns, "ss", "-ltnH", "sport", "=", ":"+port).Output() //nolint:gosec // the test's own
		return err == nil && len(out) > 0
	})
	return address
}

// doctorPath asks about the path, in a namespace.
func doctorPath(t *testing.T, ns, address string) (out []byte, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(3*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, program("ip"), "netns", "exec", ns, filepath.Join(bin, "tare-agent"), "doctor", "--json", "--peer", address) //nolint:gosec // the test's own
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("%s%s", out, said.String())
	return out, cmd.ProcessState.ExitCode()
}
