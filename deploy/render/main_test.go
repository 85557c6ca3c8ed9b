package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rendered is what the command writes.
func rendered(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// object decodes the one of a kind and name.
func object(t *testing.T, text, kind, name string, to any) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var meta struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if meta.Kind == kind && meta.Metadata.Name == name {
			if err := yaml.UnmarshalStrict([]byte(doc), to); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return
		}
	}
	t.Fatalf("no %s %s", kind, name)
}

func TestPlainIsTheCharts(t *testing.T) {
	if read(t, plain) != rendered(t, "chart") {
		t.Errorf("%s is not what the chart gives: make manifests", plain)
	}
}

func TestEveryKindOfValues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text := rendered(t, "chart", file); strings.Contains(text, "<no value>") || !strings.Contains(text, "kind: DaemonSet") {
			t.Errorf("%s:\n%s", file, text)
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		`{agent: {enabeld: true}}`:                                                     "enabeld",
		`{agent: {config: {services: []}}}`:                                            "services",
		`{agent: {config: {services: [{namespace: a}], listen: "0.0.0.0:1"}}}`:         "listen",
		`{agent: {endpoint: "otlp.example:4317"}}`:                                     "endpoint",
		`{collector: {enabled: false}}`:                                                "agent.endpoint is empty",
		`{collector: {store: {enabled: false}}}`:                                       "collector.exporters empty",
		`{collector: {tracing: {replicas: 0}}}`:                                        "replicas",
		`{collector: {tracing: {resources: {limits: {memory: 1000M}}}}}`:               "give it in Mi or Gi",
		`{page: {tlsSecretName: a}}`:                                                   "both page.tlsSecretName and page.authSecretName",
		`{page: {ingress: {enabled: true}}}`:                                           "both page.tlsSecretName and page.authSecretName",
		`{collector: {enabled: true, store: {size: 1Gi}, keeep: {}}, image: {tag: 1}}`: "keeep",
	} {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		if _, err := chart(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// The agent's container holds what its systemd unit does.
func TestCapabilitiesAreTheUnits(t *testing.T) {
	var d appsv1.DaemonSet
	object(t, rendered(t, "chart"), "DaemonSet", "tare-agent", &d)
	c := d.Spec.Template.Spec.Containers[0].SecurityContext
	var has []string
	for _, name := range c.Capabilities.Add {
		has = append(has, "CAP_"+string(name))
	}
	var wants []string
	for line := range strings.Lines(read(t, "../../packaging/systemd/tare-agent.service")) {
		if list, ok := strings.CutPrefix(line, "CapabilityBoundingSet="); ok {
			wants = strings.Fields(list)
		}
	}
	if len(wants) == 0 || !slices.Equal(has, wants) || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || c.Privileged != nil {
		t.Errorf("%+v, the unit has %v", c, wants)
	}
}

// The role is the one that docs/agent.md shows.
func TestRoleIsTheDocumented(t *testing.T) {
	var role, documented rbacv1.ClusterRole
	object(t, rendered(t, "chart"), "ClusterRole", "tare-agent", &role)
	_, text, _ := strings.Cut(read(t, "../../docs/agent.md"), "\n```\napiVersion: rbac")
	text, _, ok := strings.Cut("apiVersion: rbac"+text, "\n```")
	if err := yaml.UnmarshalStrict([]byte(text), &documented); err != nil || !ok {
		t.Fatal(err)
	}
	names := func(r *rbacv1.ClusterRole) (all []string) {
		for _, rule := range r.Rules {
			if !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
				t.Errorf("it may %v", rule.Verbs)
			}
			all = append(all, strings.Join(append(rule.APIGroups, rule.Resources...), " "))
		}
		return all
	}
	if !slices.Equal(names(&role), names(&documented)) {
		t.Errorf("%v, documented %v", names(&role), names(&documented))
	}
}

// What the overlay patches is there, and the rest is the plain objects.
func TestOverlay(t *testing.T) {
	text := rendered(t, "kustomize", "../kubernetes/thesis")
	var d appsv1.DaemonSet
	object(t, text, "DaemonSet", "tare-agent", &d)
	c := d.Spec.Template.Spec.Containers[0]
	if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "TARE_LISTEN" }); i < 0 || c.ReadinessProbe.HTTPGet.Host != "" {
		t.Errorf("%+v", c)
	}
	var s appsv1.StatefulSet
	object(t, text, "StatefulSet", "tare-tracing", &s)
	if args := s.Spec.Template.Spec.Containers[0].Args; args[len(args)-1] != "--config=/etc/tare-tempo/tempo-exporter.yaml" {
		t.Errorf("%v", args)
	}
	if base := rendered(t, "kustomize", "../kubernetes/base"); strings.Count(base, "\n---\n") < 15 {
		t.Errorf("%s", base)
	}
}

// Images are tagged by the version that the agent says.
func TestVersionIsTheAgents(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "../../agent/version.go"), `var Version = "`)
	version, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal("agent/version.go has no version")
	}
	for _, text := range []string{rendered(t, "chart"), rendered(t, "kustomize", "../kubernetes/thesis")} {
		for line := range strings.Lines(text) {
			if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: tare"); ok && !strings.HasSuffix(image, ":"+version) {
				t.Errorf("%sis not of version %s", line, version)
			}
		}
	}
}
