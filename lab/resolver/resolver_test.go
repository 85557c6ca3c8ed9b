package resolver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueriesAreCounted(t *testing.T) {
	log := `Nov 26 14:30:00 dnsmasq[7]: started, version 2.90 cachesize 150
Nov 26 14:30:01 dnsmasq[7]: query[A] query[.svc.cluster.local from 10.224.0.2
Nov 26 14:30:01 dnsmasq[7]: config query[.svc.cluster.local is NXDOMAIN
Nov 26 14:30:01 dnsmasq[7]: query[AAAA] collector.tracing.svc.cluster.local from 10.224.0.2
Nov 26 14:30:01 dnsmasq[7]: config collector.tracing.svc.cluster.local is 10.224.0.1
Nov 26 14:30:01 dnsmasq[7]: query[type=65] collector.tracing.svc.cluster.local from 10.224.0.2
`
	// However the reader meets the file while it is written, each line counts once.
	for cut := range len(log) {
		c := &counter{}
		for _, part := range []string{log[:cut], log[cut:]} {
			require.NoError(t, c.read(strings.NewReader(part)))
		}
		require.EqualValues(t, 3, c.n, "queries of a log that was read in two parts, of %d and %d bytes", cut, len(log)-cut)
	}
}

func FuzzCounter(f *testing.F) {
	f.Add("a dnsmasq[7]: query[A] x\n", 3)
	f.Fuzz(func(t *testing.T, log string, cut int) {
		whole, parts := &counter{}, &counter{}
		cut = min(max(cut, 0), len(log))
		for _, r := range []struct {
			c    *counter
			text string
		}{{whole, log}, {parts, log[:cut]}, {parts, log[cut:]}} {
			require.NoError(t, r.c.read(strings.NewReader(r.text)))
		}
		assert.Equal(t, parts.n, whole.n)
	})
}
