package otlphttp_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A service that exports over HTTP must not link gRPC or generated messages:
// they add megabytes and start-up time.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err, "go list")
	packages := strings.Fields(string(out))
	require.GreaterOrEqual(t, len(packages), 100)
	for _, p := range packages {
		for _, refused := range []string{
			"google.golang.org/grpc", "google.golang.org/genproto", "go.opentelemetry.io/proto", "google.golang.org/protobuf/proto",
			"google.golang.org/protobuf/reflect", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "testing",
		} {
			if p == refused || strings.HasPrefix(p, refused+"/") {
				t.Errorf("the exporter depends on %s", p)
			}
		}
	}
}
