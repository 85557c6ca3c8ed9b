package main

import (
	"os/exec"
	"strings"
	"testing"
)

// heavy is what the agent must not link: every package of the collector's
// framework and of its components costs memory at start, used or not.
var heavy = []string{
	"go.opentelemetry.io/collector",
	"github.com/open-telemetry/opentelemetry-collector-contrib",
	"github.com/cockroachdb",
	"github.com/ClickHouse",
	"github.com/twmb/franz-go",
	"k8s.io",
	"github.com/tare-trace/tare/collector",
	"github.com/tare-trace/tare/lab",
	"github.com/grpc-ecosystem/grpc-gateway",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/proto",
	"github.com/tare-trace/tare/run",
	"github.com/tare-trace/tare/store",
	"github.com/tare-trace/tare/web",
}

func TestLinksNothingOfTheCollector(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	agent := false
	for _, p := range packages {
		agent = agent || p == "github.com/tare-trace/tare/agent"
		for _, h := range heavy {
			if p == h || strings.HasPrefix(p, h+"/") {
				t.Errorf("links %s", p)
			}
		}
	}
	if !agent {
		t.Errorf("links no agent: %d packages", len(packages))
	}
}
