package experiment

import (
	"reflect"
	"strings"
	"testing"

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
	if err := kept.Ask(now); err == nil || !strings.Contains(err.Error(), "not-run") {
		t.Errorf("a tracer that was not run: %v", err)
	}
	if len(kept.Questions) < 2 {
		t.Error("questions that cannot be answered are asked")
	}
	if err := kept.Ask(opened("coroot")); err == nil || !strings.Contains(err.Error(), "coroot") {
		t.Errorf("questions of another experiment: %v", err)
	}
}
