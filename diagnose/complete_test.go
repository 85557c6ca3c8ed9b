package diagnose

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The shell completes the names of the services that a page has.
func TestServicesAreCompleted(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/services" {
			_, _ = fmt.Fprint(w, `{"services": [{"name": "cart", "spans": 1}, {"name": "shop", "spans": 2}]}`)
		}
	}))
	defer page.Close()
	var out bytes.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"__complete", "--page", page.URL, "--service", ""})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if names := strings.Fields(out.String()); !slices.Contains(names, "cart") || !slices.Contains(names, "shop") {
		t.Errorf("completed %q", names)
	}
}
