// Package dependencies holds the promise that a service which imports one of the
// libraries gets little else. It has tests only.
package dependencies

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/tare-trace/tare/otel"

// What the API and the SDK of OpenTelemetry link themselves.
var sdk = []string{
	"github.com/cespare/xxhash/v2",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/google/uuid",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/otel/trace",
	"golang.org/x/sys",
}

// More is allowed to these packages, beside sdk.
var more = map[string][]string{
	"lean/otlpgrpc": {
		"golang.org/x/net", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc",
		"google.golang.org/grpc", "google.golang.org/protobuf",
	},
	"lean/logfile":  {"google.golang.org/protobuf"},
	"lean/otlphttp": {"google.golang.org/protobuf"},
	"wire/fields":   {"google.golang.org/protobuf"},
	"lean/leangrpc": {
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	},
	"lean/leanhttp":  {"github.com/felixge/httpsnoop"},
	"lean/leanredis": {"github.com/redis/go-redis/extra/rediscmd/v9", "github.com/redis/go-redis/v9", "go.uber.org/atomic"},
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err, "%v", cmd)
	return strings.Fields(string(out))
}

func TestDependencies(t *testing.T) {
	packages := slices.DeleteFunc(list(t, "./..."), func(p string) bool { return strings.Contains(p, "/internal/") })
	require.GreaterOrEqual(t, len(packages), 10, "only %v", packages)
	for _, p := range packages {
		name := strings.TrimPrefix(p, module+"/")
		allowed := append(slices.Clone(sdk), more[name]...)
		linked := map[string]bool{}
		for _, m := range list(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", p) {
			linked[m] = true
		}
		for m := range maps.Keys(linked) {
			if m != module && !slices.Contains(allowed, m) {
				t.Errorf("%s links %s: is it worth it to every service that imports the package?", name, m)
			}
		}
		for _, m := range more[name] {
			assert.True(t, linked[m], "%s may link %s, and does not: take it off the list", name, m)
		}
	}
}
