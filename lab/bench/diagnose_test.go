package bench

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/record"
)

func TestScoreOfADiagnosis(t *testing.T) {
	const answer = `{"entries": [
		{"service": "frontend", "operation": "GET /hotels", "verdict": {"status": "found", "text": "geo explains 60%", "causes": [
			{"kind": "own", "service": "geo", "operation": "Nearby"}, {"kind": "between", "service": "rate", "from": "search"}]}},
		{"service": "frontend", "operation": "GET /user", "verdict": {"status": "found", "text": "user", "causes": [{"kind": "peer", "service": "geo"}]}},
		{"service": "frontend", "operation": "GET /reserve", "verdict": {"status": "cannot_tell", "text": "cannot tell", "causes": [{"kind": "own", "service": "user"}]}}
	]}`
	d, err := readDiagnosis([]byte(answer))
	require.NoError(t, err)
	if want := []string{"geo", "search to rate"}; !slices.Equal(d.Named, want) {
		t.Errorf("named %v, want %v", d.Named, want)
	}
	if len(d.Verdicts) != 3 || d.Verdicts[0] != "frontend GET /hotels: geo explains 60%" {
		t.Errorf("%q", d.Verdicts)
	}
	assert.Equal(t, "geo", d.First, "first")
	for _, c := range []struct {
		late []string
		want map[string]float64
	}{
		{[]string{"geo"}, map[string]float64{record.CausePrecision: 0.5, record.CauseRecall: 1, record.CauseFirst: 1}},
		{[]string{"geo", "memcached-rate"}, map[string]float64{record.CausePrecision: 0.5, record.CauseRecall: 0.5, record.CauseFirst: 1}},
		{[]string{"rate"}, map[string]float64{record.CausePrecision: 0, record.CauseRecall: 0, record.CauseFirst: 0}},
		{nil, map[string]float64{record.CausePrecision: 0}},
	} {
		d.Late = c.late
		got := map[string]float64{}
		if score(d, got); !maps.Equal(got, c.want) {
			t.Errorf("late %v: %v, want %v", c.late, got, c.want)
		}
	}
	if _, err := readDiagnosis([]byte("usage")); err == nil {
		t.Error("an answer that is no JSON is read")
	}
}
