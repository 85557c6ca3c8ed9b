package golang

import (
	"encoding/json"
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var matrix = flag.Bool("matrix", false, "build the program under test with all toolchains and flags")

// live runs the program, and holds the layout against what it knows of itself.
func live(t *testing.T, path string) *Program {
	t.Helper()
	p := start(t, path)
	seen := 0
	for {
		e, ok := p.next()
		if !ok {
			t.Fatal("the program ended")
		}
		if p.prog == nil {
			prog, err := new(Reader).Read(p.dir)
			if err != nil {
				t.Fatal(err)
			}
			p.prog = prog
		}
		p.check(e)
		seen++
		if e.At == "end" {
			break
		}
		p.goOn()
	}
	if seen != 11 {
		t.Errorf("%d events", seen)
	}
	return p.prog
}

func TestLive(t *testing.T) {
	p := live(t, variant{stripped: true}.build(t))
	b, _ := json.MarshalIndent(p, "", " ")
	t.Logf("%s", b)
}
