package lean_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// TestEqualToSDK runs a few of the random programs with which package equality holds this one to the SDK.
func TestEqualToSDK(t *testing.T) {
	receiver := equality.NewReceiver()
	defer receiver.Close()
	for seed := range uint64(30) {
		data := make([]byte, 2000)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		p := equality.Random("random", data)
		want, err := equality.Run(p, equality.Official, receiver, true)
		require.NoError(t, err)
		got, err := equality.Run(p, equality.Lean, receiver, true)
		require.NoError(t, err)
		require.NoError(t, equality.Compare(want, got, true, true), "seed %d", seed)
	}
}
