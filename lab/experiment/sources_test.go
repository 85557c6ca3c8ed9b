package experiment

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/sources.md says where each figure, table and question of a source is answered: `thesis 5.1` in a row of its tables is the
// figure or question 5.1 of the experiment thesis.
func TestSourcesNameWhatExists(t *testing.T) {
	doc, err := os.ReadFile("../../docs/sources.md")
	require.NoError(t, err)
	all, err := Shipped()
	require.NoError(t, err)
	exists, experiments := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		experiments[e.Name] = true
		for _, f := range e.Figures {
			exists[e.Name+" "+f.ID] = true
		}
		for _, q := range e.Questions {
			exists[e.Name+" "+q.ID] = true
		}
	}
	named := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			name, id, found := strings.Cut(code[1], " ")
			if !found || !experiments[name] {
				continue
			}
			named++
			assert.True(t, exists[code[1]], "docs/sources.md names %s of the experiment %s, which has no figure or question of that id", id, name)
		}
	}
	if named == 0 {
		t.Error("docs/sources.md names no figure of any experiment")
	}
}
