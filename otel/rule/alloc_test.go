//go:build !race

package rule

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMatchingAllocatesNothing(t *testing.T) {
	l, span := benchList(t)
	require.Equal(t, l.Len()-1, l.Index(span))
	assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { l.Index(span) }), "allocations")
}
