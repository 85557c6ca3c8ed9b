package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
)

func TestLoad(t *testing.T) {
	spec, err := LoadTare()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		s := fmt.Sprintf("%+v", ve)
		if len(s) > 6000 {
			s = s[len(s)-6000:]
		}
		t.Fatal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, p := range c.Programs {
		i, _ := p.Info()
		x, _ := i.Instructions()
		v, _ := i.VerifiedInstructions()
		t.Log(n, len(x), v)
	}
	c.Close()
}
