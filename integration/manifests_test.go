package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What deploy/kubernetes gives to collectors, agents and Prometheus is valid. That it is what the chart renders is tested by
// deploy/render, that a cluster accepts it by integration/apiserver.
func TestManifestsConfigureValidly(t *testing.T) {
	t.Parallel()
	need(t, "promtool")
	files := configMaps(t, "../deploy/kubernetes/base/tare.yaml")
	agent := files["tare-agent/agent.yaml"]
	tempo, err := os.ReadFile("../deploy/kubernetes/thesis/tempo-exporter.yaml")
	if err != nil || agent == "" {
		t.Fatal(err, files)
	}
	asReceiver := "receivers:\n  tare_agent:\n    kubernetes: on\n    " + strings.ReplaceAll(agent, "\n", "\n    ") +
		"\nexporters: {nop: }\nservice: {telemetry: {metrics: {level: none}}, pipelines: {traces: {receivers: [tare_agent], exporters: [nop]}}}\n"
	for name, configs := range map[string][]string{
		"gateway":            {files["tare-gateway/collector.yaml"]},
		"tracing":            {files["tare-tracing/collector.yaml"]},
		"store":              {files["tare-store/collector.yaml"]},
		"tracing, and Tempo": {files["tare-tracing/collector.yaml"], string(tempo)},
		"agent":              {asReceiver},
	} {
		args := []string{"collector", "validate", "--plaintext"}
		for _, c := range configs {
			if c == "" {
				t.Fatalf("%s: there is none", name)
			}
			args = append(args, "--config", writeConfig(t, c))
		}
		if out, err := exec.CommandContext(t.Context(), tare, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", "--syntax-only", "../deploy/kubernetes/thesis/prometheus.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// configMaps are the files of a manifest's ConfigMaps, by name and key.
func configMaps(t *testing.T, manifest string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Data     yaml.Node
		}
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if object.Kind != "ConfigMap" {
			continue
		}
		data := map[string]string{}
		if err := object.Data.Decode(&data); err != nil {
			t.Fatal(err)
		}
		for key, file := range data {
			files[object.Metadata.Name+"/"+key] = file
		}
	}
}
