package equality_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// randomData is the program of a seed: the same on every machine.
func randomData(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 4))
	data := make([]byte, 100+r.IntN(3000))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestRandomPrograms(t *testing.T) {
	spans := 0
	for seed := range uint64(300) {
		p := equality.Random(fmt.Sprint("random/", seed), randomData(seed))
		want, err := compare(t, p, seed%3 != 0) // every third with the ids of the providers
		assert.NoError(t, err, "seed %d", seed)
		spans += len(want.Spans)
	}
	if spans < 3000 { // a generator that makes nothing would compare nothing
		t.Errorf("300 programs exported %d spans", spans)
	}
	t.Logf("%d spans", spans)
}

func FuzzPrograms(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomData(1000 + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<13 {
			t.Skip("longer programs find nothing that shorter do not")
		}
		for _, counting := range []bool{true, false} {
			if _, err := compare(t, equality.Random("fuzz", data), counting); err != nil {
				t.Error(err)
			}
		}
	})
}
