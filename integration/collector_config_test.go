package integration

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Every shipped configuration is valid, as it stands; those that would listen
// to the network without TLS say so.
func TestCollectorExamplesAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../deploy/collector/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d configurations, %v", len(files), err)
	}
	env := []string{"TARE_CERTS=" + t.TempDir()}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "builder.yaml" {
			continue // the builder's, not a collector's
		}
		t.Run(name, func(t *testing.T) {
			args := []string{"collector", "validate", "--config", file}
			if name == "gateway.yaml" || name == "tracing.yaml" {
				if said := refuses(t, env, args...); !strings.Contains(said, "--plaintext") {
					t.Errorf("refused without naming --plaintext: %s", said)
				}
				args = append(args, "--plaintext")
			}
			cmd := exec.CommandContext(t.Context(), tare, args...)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if want := "the configuration is valid\n"; string(out) != want {
				t.Errorf("it said more: %s", out)
			}
		})
	}
}

// What is wrong is said, with the key, and ends the process with an error.
func TestCollectorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	taken := busy.Addr().String()
	const rest = "\nexporters: {debug: }\nservice: {telemetry: {metrics: {level: none}}, pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n"
	config := func(receivers string) []string {
		return []string{"collector", "--config", "yaml:receivers: " + receivers + rest}
	}
	store := t.TempDir()
	if err := os.WriteFile(filepath.Join(store, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"a port in use", config("{otlp: {protocols: {grpc: {endpoint: '" + taken + "'}}}}"), []string{taken, "address already in use"}},
		{"an unknown key", config("{otlp: {protocols: {grpc: {endpiont: 127.0.0.1:1}}}}"), []string{"'protocols.grpc", "endpiont"}},
		{"an unknown component", config("{oltp: }"), []string{"oltp", "unknown type", "zipkin"}},
		{"an unknown section", []string{"collector", "--set", "receiverz.otlp=1"}, []string{"invalid keys", "receiverz"}},
		{"no such file", []string{"collector", "--config", "nowhere.yaml"}, []string{"nowhere.yaml", "no such file"}},
		{"not YAML", []string{"collector", "--config", "yaml:a: [b"}, []string{"yaml"}},
		{"not a property", []string{"collector", "--set", "nothing"}, []string{"--set nothing", "a.property=value"}},
		{"an argument", []string{"collector", "gateway.yaml"}, []string{"gateway.yaml"}},
		{"open to the network", config("{otlp: {protocols: {http: {endpoint: '0.0.0.0:4318'}}}}"),
			[]string{"receivers::otlp::protocols::http", "0.0.0.0:4318", "TLS", "--plaintext"}},
		{"a pipeline without its receiver", config("{zipkin: }"), []string{`"otlp"`, "not configured"}},
		{"a size that is none", []string{"collector", "validate", "--set", "extensions.tare_store.retention.size=much"}, []string{"much", "10GiB"}},
		{"a directory below a file", []string{"collector", "--set", "extensions.tare_store.directory=" + store + "/file/below"},
			[]string{"not a directory", "`directory`"}},
		{"no extension for the store", []string{"collector", "--set", "exporters.tare_store.store=tare_store/other",
			"--set", "extensions.tare_store.directory=" + t.TempDir()}, []string{"tare_store/other", "service::extensions"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := refuses(t, nil, append(c.args, "--set", "service.telemetry.metrics.level=none")...)
			// The reason comes last, whatever was logged before.
			last := said[strings.LastIndex(said, "tare: ")+1:]
			for _, want := range c.want {
				if !strings.Contains(last, want) {
					t.Errorf("%q does not say %q", last, want)
				}
			}
			if strings.Contains(said, "goroutine ") {
				t.Errorf("it panicked:\n%s", said)
			}
		})
	}
}

// A configuration in several files, in the environment, and single properties:
// what comes later wins.
func TestCollectorMergesConfigurations(t *testing.T) {
	t.Parallel()
	first := writeConfig(t, "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {debug: {verbosity: basic}}\n"+
		"service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n")
	cmd := exec.CommandContext(t.Context(), tare, "collector", "print-config",
		"--config", first, "--config", "env:MORE", "--set", "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:99")
	cmd.Env = append(os.Environ(), `MORE=exporters: {debug: {verbosity: "${env:VERBOSITY:-normal}"}}`, "VERBOSITY=detailed")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Receivers struct {
			OTLP struct {
				Protocols struct {
					GRPC struct{ Endpoint string }
				}
			}
		}
		Exporters struct{ Debug struct{ Verbosity string } }
	}
	if err := yaml.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if e, v := got.Receivers.OTLP.Protocols.GRPC.Endpoint, got.Exporters.Debug.Verbosity; e != "127.0.0.1:99" || !strings.EqualFold(v, "detailed") {
		t.Errorf("endpoint %q, verbosity %q", e, v)
	}
}

// What a configuration can name, and the default one.
func TestCollectorDescribesItself(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), tare, "collector", "components").Output()
	if err != nil {
		t.Fatal(err)
	}
	type named []struct{ Name, Module string }
	var components map[string]yaml.Node
	if err := yaml.Unmarshal(out, &components); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for section, want := range map[string]string{
		"receivers":  "jaeger kafka otlp tare_agent zipkin",
		"processors": "batch filter memory_limiter redaction tail_sampling tare_keep tare_redact tare_tracer transform",
		"exporters":  "clickhouse debug kafka load_balancing nop otlp_grpc otlp_http prometheus tare_log tare_store",
		"extensions": "basicauth bearertokenauth file_storage health_check tare_limits tare_page tare_retro tare_store",
	} {
		var list named
		node := components[section]
		if err := node.Decode(&list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
			if strings.HasPrefix(c.Module, "go.opentelemetry.io/") && !strings.Contains(c.Module, " v") {
				t.Errorf("%s: no version of %q", c.Name, c.Module)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s\nwant: %s", section, got, want)
		}
	}

	shown, err := exec.CommandContext(t.Context(), tare, "collector", "print-config").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := slurp(t, "../collector/default.yaml")
	if string(shown) != file {
		t.Errorf("the default configuration is shown as\n%s", shown)
	}
}

// deploy/collector/builder.yaml names what go.mod does; with TARE_BUILDER=1 it is
// built, which takes minutes.
func TestCollectorBuilderManifest(t *testing.T) {
	t.Parallel()
	type module struct{ Path, Version string }
	var mod struct {
		Require []module
		Replace []struct{ Old, New module }
	}
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", "../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	manifest := slurp(t, "../deploy/collector/builder.yaml")
	for _, r := range mod.Replace {
		if line := r.Old.Path + " => " + r.New.Path + " " + r.New.Version; r.New.Version != "" && !strings.Contains(manifest, line+"\n") {
			t.Errorf("it lacks %q", line)
		}
	}
	var m struct {
		Receivers, Processors, Exporters, Extensions, Providers []struct{ Gomod string }
	}
	if err := yaml.Unmarshal([]byte(manifest), &m); err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, list := range [][]struct{ Gomod string }{m.Receivers, m.Processors, m.Exporters, m.Extensions, m.Providers} {
		for _, c := range list {
			path, version, _ := strings.Cut(c.Gomod, " ")
			for _, r := range mod.Require {
				if r.Path == path && r.Version != version {
					t.Errorf("%s is at %s here, %s in go.mod", path, version, r.Version)
				}
			}
			named++
		}
	}
	if named < 12 {
		t.Errorf("it names %d components", named)
	}
	if os.Getenv("TARE_BUILDER") == "" {
		return
	}
	build := exec.CommandContext(t.Context(), "go", "run", "go.opentelemetry.io/collector/cmd/builder@v0.161.0", "--config", "builder.yaml")
	build.Dir = "../deploy/collector"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "../bin/otelcol-tare/otelcol-tare", "components").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tare_tracer", "tare_keep", "tare_redact", "tare_store", "tare_page"} {
		if !strings.Contains(string(out), "name: "+name+"\n") {
			t.Errorf("%s is not in it:\n%s", name, out)
		}
	}
}
