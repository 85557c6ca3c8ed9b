package bpf

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// The verifier gives up at 1,000,000 instructions; other kernels walk other
// paths, so keep well below.
const verifiedLimit = 400_000

func TestVerifierAccepts(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must run this test as root")
		}
		t.Skip("loading kernel programs needs root")
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := LoadTare()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		log := verifier.Log
		t.Fatalf("refused; the last lines:\n%s", strings.Join(log[max(0, len(log)-30):], "\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, p := range c.Programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := info.VerifiedInstructions(); ok && n > verifiedLimit {
			t.Errorf("%s: the verifier walked %d instructions, keep it below %d", name, n, verifiedLimit)
		} else {
			t.Logf("%s: %d instructions walked", name, n)
		}
	}
}

// The same C is compiled for both architectures: same programs, same maps.
func TestArchitecturesAgree(t *testing.T) {
	var names [2][]string
	for i, file := range []string{"tare_x86_bpfel.o", "tare_arm64_bpfel.o"} {
		spec, err := ebpf.LoadCollectionSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range spec.Programs {
			names[i] = append(names[i], name)
		}
		if spec.Maps["events"] == nil || spec.Variables["sampling_threshold"] == nil {
			t.Errorf("%s lacks a map or a variable", file)
		}
	}
	if len(names[0]) != len(names[1]) || len(names[0]) == 0 {
		t.Errorf("programs %v and %v", names[0], names[1])
	}
}
