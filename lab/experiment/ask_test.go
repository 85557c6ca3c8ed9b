package experiment

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	opened := func(name string) *Experiment {
		t.Helper()
		e, err := Open(name)
		require.NoError(t, err)
		return e
	}
	run, now := opened("strategies"), opened("strategies")
	now.Questions = now.Questions[:1]
	now.Questions[0].Ask, now.Questions[0].Claims = "Another one?", now.Questions[0].Claims[:1]
	now.Figures, now.Rules = now.Figures[:1], Rules{}
	require.NoError(t, run.Ask(now))
	if len(run.Questions) != 1 || run.Questions[0].Ask != "Another one?" || len(run.Figures) != 1 || reflect.DeepEqual(run.Rules, now.Rules) {
		t.Errorf("it has the questions %+v, figures %+v and rules %+v", run.Questions, run.Figures, run.Rules)
	}
	now.Questions[0].Claims[0].Where.Tracers = []string{"not-run"}
	kept := opened("strategies")
	assert.ErrorContains(t, kept.Ask(now), "not-run", "a tracer that was not run")
	assert.GreaterOrEqual(t, len(kept.Questions), 2, "questions that cannot be answered are asked")
	assert.ErrorContains(t, kept.Ask(opened("coroot")), "coroot", "questions of another experiment")
}
