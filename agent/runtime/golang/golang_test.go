package golang

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var matrix = flag.Bool("matrix", false, "build the program under test with all toolchains and flags")

// toolchains of the matrix. Each is fetched from Go's proxy if it is not there.
var toolchains = []toolchain{
	{"go1.21.13", "libraries-1.21"},
	{"go1.22.12", "libraries-1.21"},
	{"go1.23.12", "libraries-1.23"},
	{"go1.24.9", "libraries-1.23"},
	{"go1.25.14", "libraries-1.23"},
	{"", ""},
	{"go1.27.4", ""},
	{"go1.27.4", "libraries-1.21"},
}

// live runs the program, and holds the layout against what it knows of itself.
func live(t *testing.T, path string) *Program {
	t.Helper()
	p := start(t, path)
	for seen := 1; ; seen++ {
		e, ok := p.next()
		if !ok {
			t.Fatal("the program ended")
		}
		if p.prog == nil {
			prog, err := new(Reader).Read(p.dir, reading.New())
			if err != nil {
				t.Fatal(err)
			}
			p.prog = prog
			for k, r := range prog.Refused {
				// Maps before Go 1.24 can be read in a way of their own only.
				if old := r.Reason == MapBefore124 && Mechanism(k) == GRPCClients && e.Version < "go1.24"; r.Reason != Fits && !old {
					t.Errorf("%s: %v", Mechanism(k), r)
				}
			}
		}
		p.check(e)
		if e.At == "end" {
			if seen != 10 {
				t.Errorf("%d events, want 10", seen)
			}
			return p.prog
		}
		p.goOn()
	}
}

// All of the layout, of an executable with symbols and of one without.
func TestLive(t *testing.T) {
	path := variant{}.build(t)
	truthOf(t, path).check(live(t, path).Layout)
	t.Run("stripped", func(t *testing.T) { live(t, variant{stripped: true}.build(t)) })
}

// Every toolchain with every way to build that may change the layout.
func TestMatrix(t *testing.T) {
	if !*matrix {
		t.Skip("an hour, and toolchains from the network: run by make test-go-matrix")
	}
	for _, tc := range toolchains {
		for _, flags := range []variant{
			{}, {stripped: true}, {stripped: true, trimpath: true},
			{pie: true}, {pie: true, stripped: true}, {pie: true, stripped: true, trimpath: true},
			{cgo: true}, {cgo: true, stripped: true}, {cgo: true, pie: true}, {cgo: true, pie: true, stripped: true, trimpath: true},
		} {
			v := flags
			v.toolchain = tc
			t.Run(v.String(), func(t *testing.T) {
				path := v.build(t)
				p := live(t, path)
				if !v.stripped {
					truthOf(t, path).check(p.Layout)
				}
			})
		}
	}
}
