package workloads

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

// Each function is asked through its proxy, and the processes of both are told apart.
func TestFunctions(t *testing.T) {
	bin := servicetest.Build(t, "thesis")
	for _, proxy := range []string{"haproxy", "nginx"} {
		t.Run(proxy, func(t *testing.T) {
			kind := functionsPrefix + proxy
			if err := Absent(kind, bin); err != nil {
				t.Skip(err)
			}
			c := startWith(t, kind, Options{Bin: bin})
			if status, body := get(t, c, string(c.AppendPath(nil, 7))); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			var names []string
			for _, s := range c.Services {
				names = append(names, s.Name)
				if s.Proxy != strings.HasSuffix(s.Name, "-proxy") || s.Alike == s.Proxy {
					t.Errorf("%+v", s)
				}
			}
			assert.Equal(t, "function-a-proxy function-a function-b-proxy function-b function-c-proxy function-c", strings.Join(names, " "), "services")
			first, others := c.Front()
			if first.Name != "function-a" || len(others) != 4 || c.Proxies() != 3 {
				t.Errorf("first %q, %d others, %d proxies", first.Name, len(others), c.Proxies())
			}
			functions, proxies := c.PIDs(), c.ProxyPIDs()
			if len(functions) != 3 || len(proxies) < 3 || slices.ContainsFunc(functions, func(pid int) bool { return slices.Contains(proxies, pid) }) {
				t.Errorf("functions %v, proxies %v", functions, proxies)
			}
			assert.NoError(t, c.Stop())
			gone(t, c)
		})
	}
	assert.ErrorContains(t, Check(functionsPrefix+"gunicorn-sync", Options{}), "no proxy", "what is no proxy")
}

// Who looks at the wire sees the proxies; within the services is what a chain without them has.
func TestFunctionsShape(t *testing.T) {
	truth, err := TruthOf(functionsPrefix + "haproxy")
	require.NoError(t, err)
	assert.Equal(t, 11, truth(7).Spans(), "spans on the wire: each service is asked through its proxy")
	if got, want := describe(truth.Within()(7)), describe(thesisShape(functionsHops)); got != want {
		t.Errorf("within the services:\n%s\nwant\n%s", got, want)
	}
}

func describe(s Shape) string {
	text := s.String()
	for _, c := range s.Children {
		text += "\n" + describe(c)
	}
	return text
}
