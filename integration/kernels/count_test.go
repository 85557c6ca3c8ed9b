package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

const console = `RESULT requests=4000 bad=0 instructions=403435221
TASK nginx 225974000
TASK nginx 106886000
TASK load 72445483
METRIC tare_lost_total{reason="ring_full"} 0
DONE 6.18.15
`

func TestParse(t *testing.T) {
	var r counted
	if err := r.parse([]byte(console)); err != nil {
		t.Fatal(err)
	}
	if math.Abs(r.Instructions-100858.8) > 0.1 || r.Tasks["nginx"] != 83215 || r.Requests != 4000 {
		t.Errorf("%v instructions of %d requests, tasks %v", r.Instructions, r.Requests, r.Tasks)
	}
	for old, other := range map[string]string{
		"bad=0": "bad=1", "DONE": "FAILED", "ring_full\"} 0": "ring_full\"} 3", "RESULT requests=4000": "RESULT requests=many", "nginx 225974000": "nginx none",
	} {
		var r counted
		if err := r.parse([]byte(strings.Replace(console, old, other, 1))); err == nil {
			t.Errorf("%s instead of %s: no error", other, old)
		}
	}
}

func TestAttribute(t *testing.T) {
	kernel := symbols{{0xffffffff81000000, "tcp_sendmsg"}, {0xffffffffc0000000, "bpf:tare_send"}}
	functions := symbols{{0x401000, "main.main"}}
	r := counted{Requests: 2}
	r.attribute([]block{{0xffffffff81000010, 5, 4}, {0xffffffffc0000000, 3, 2}, {0x401008, 7, 2}, {0x555555555000, 1, 2}}, kernel, functions)
	if r.Parts[rest] != 10 || r.Parts[programs] != 3 || r.Parts[agentCode] != 7 || r.Parts[serviceCode] != 1 {
		t.Errorf("parts %v", r.Parts)
	}
	if r.names["tcp_sendmsg"] != 10 || r.names["bpf:tare_send"] != 3 || r.agent["main.main"] != 7 {
		t.Errorf("names %v, functions of the agent %v", r.names, r.agent)
	}
}

// What an untraced request takes, and another kernel, fail nothing; what tracing adds does.
func TestCompare(t *testing.T) {
	run := func(release string, all, own float64) []counted {
		return []counted{
			{Release: release, Connections: 1, Tracing: untraced, Instructions: 100_000, Parts: map[string]float64{helpers: 2000}},
			{Release: release, Connections: 1, Tracing: "1%", Instructions: 100_000 + all, Parts: map[string]float64{helpers: 2000 + own/2, programs: own / 2}},
		}
	}
	committed := run("6.12", 4000, 3000)
	for _, tt := range []struct {
		what string
		runs []counted
		says string
		ok   bool
	}{
		{"the same", committed, "adds 4000", true},
		{"within what is tolerated", run("6.12", 4900, 3290), "3290 of them", true},
		{"more of its own", run("6.12", 4000, 3310), "3310 of them", false},
		{"more in all", run("6.12", 5010, 3000), "adds 5010", false},
		{"another kernel", run("6.13", 20_000, 20_000), "not compared", true},
	} {
		var out bytes.Buffer
		if err := compare(&out, committed, tt.runs); (err == nil) != tt.ok || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: %v\n%s", tt.what, err, out.String())
		}
	}
}
