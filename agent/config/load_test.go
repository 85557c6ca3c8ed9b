package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-trace/tare/agent/config"
)

const example = `
services:
  - name: shop
    ports: [8080, "9000-9010"]
    executable: "*/python3*"
    cgroup: "/system.slice/shop.service*"
    linking: thread
    published: sdk
  - ports: [80]
trust: [127.0.0.0/8, "::1/128", host]
sampler: parentbased_traceidratio
sampler_arg: 0.01
payload: off
listen: ""
export: {protocol: grpc}
resource: {deployment.environment.name: prod, team: a}
max_spans: 1000
queue: 200
metrics: requests
sequence: on
budget: 2.5%
budget_floor: 0.001
`

func load(t *testing.T, file string, environ []string, args ...string) (config.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	config.Flags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "tare.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(fs, environ)
}

func TestFile(t *testing.T) {
	c, err := load(t, example, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Rule{
		{
			Name: "shop", Ports: []config.PortRange{{First: 8080, Last: 8080}, {First: 9000, Last: 9010}},
			Executable: "*/python3*", Cgroup: "/system.slice/shop.service*", Linking: config.Thread, Published: config.KeepSDK,
		},
		{Ports: []config.PortRange{{First: 80, Last: 80}}},
	}
	if !reflect.DeepEqual(c.Services, want) {
		t.Errorf("services %+v, want %+v", c.Services, want)
	}
	if len(c.Trust) != 3 || c.Trust[0].String() != "127.0.0.0/8" || !c.Trust[2].Host || !c.TrustsHost() {
		t.Errorf("trust %v", c.Trust)
	}
	if c.Sampler != "parentbased_traceidratio" || c.SamplerArg != 0.01 || c.Payload || c.Listen != "" ||
		c.Export.Protocol != "grpc" || c.MaxSpans != 1000 || c.Queue != 200 || c.File == "" ||
		c.Metrics != config.MetricsRequests || !c.Sequence || c.Budget != (config.Budget{Share: 0.025, Floor: 0.001}) || c.Budget.String() != "2.5%" ||
		c.Resource["deployment.environment.name"] != "prod" {
		t.Errorf("%+v", c)
	}
}

func TestPrecedence(t *testing.T) {
	env := []string{
		"OTEL_TRACES_SAMPLER=always_off", "OTEL_TRACES_SAMPLER_ARG=0.5", "TARE_PAYLOAD=on", "TARE_LISTEN=:1",
		"OTEL_RESOURCE_ATTRIBUTES=team=b%2Cc,service.name=from-resource", "TARE_TRUST=10.0.0.0/8, host",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "TARE_PORTS=", "TARE_PORT=tcp://10.0.0.1:80",
	}
	c, err := load(t, example, env, "--sampler", "always_on", "--listen", "none")
	if err != nil {
		t.Fatal(err)
	}
	if c.Sampler != "always_on" || c.SamplerArg != 0.5 || !c.Payload || c.Listen != "" ||
		c.Export.Protocol != "http/protobuf" || c.MaxSpans != 1000 {
		t.Errorf("%+v", c)
	}
	if c.Resource["team"] != "b,c" || c.Resource["deployment.environment.name"] != "prod" || c.ServiceName != "from-resource" {
		t.Errorf("resource %v, name %q", c.Resource, c.ServiceName)
	}
	if len(c.Trust) != 2 || len(c.Services) != 2 {
		t.Errorf("trust %v, services %v", c.Trust, c.Services)
	}

	c, err = load(t, example, append(env, "OTEL_SERVICE_NAME=named", "TARE_EXES=x=*/x", "TARE_LINKING=loop"), "--trust", "none")
	if err != nil {
		t.Fatal(err)
	}
	if c.ServiceName != "named" || len(c.Trust) != 0 || len(c.Services) != 1 ||
		c.Services[0].Executable != "*/x" || c.Services[0].Linking != config.Auto || c.Linking != config.Loop {
		t.Errorf("%+v", c)
	}
}

// Headers have no case, and a later source replaces those of an earlier one.
func TestRequestHeaders(t *testing.T) {
	const environ, flag = "TARE_REQUEST_HEADERS=Traceparent", "--request-headers=A,b"
	for _, tc := range []struct {
		file          string
		environ, args []string
		want          []string
	}{
		{},
		{file: "request_headers: X-Request-Id, x-tenant\n", want: []string{"x-request-id", "x-tenant"}},
		{file: "request_headers: X-Request-Id\n", want: []string{"x-request-id"}},
		{file: "request_headers: x\n", environ: []string{environ}, want: []string{"traceparent"}},
		{environ: []string{environ}, args: []string{flag}, want: []string{"a", "b"}},
	} {
		c, err := load(t, "services: [{ports: [80]}]\n"+tc.file, tc.environ, tc.args...)
		if err != nil {
			t.Fatalf("%q: %v", tc.file, err)
		}
		if !slices.Equal(c.Headers, tc.want) {
			t.Errorf("%q, %v, %v: %q, want %q", tc.file, tc.environ, tc.args, c.Headers, tc.want)
		}
	}
}

// A rule's correlation headers replace those of all; none is none.
func TestCorrelation(t *testing.T) {
	all := config.DefaultCorrelation
	for _, tc := range []struct {
		file          string
		environ, args []string
		want, ofRule  []string
	}{
		{want: all, ofRule: all},
		{file: "correlation: none", want: []string{}, ofRule: []string{}},
		{file: "correlation: []", want: []string{}, ofRule: []string{}},
		{file: "correlation: [X-Tenant, x-tenant, b3]", want: []string{"x-tenant", "b3"}, ofRule: []string{"x-tenant", "b3"}},
		{file: "correlation: [b3]", environ: []string{"TARE_CORRELATION=x-a, x-b"}, want: []string{"x-a", "x-b"}, ofRule: []string{"x-a", "x-b"}},
		{environ: []string{"TARE_CORRELATION=x-a"}, args: []string{"--correlation=none"}, want: []string{}, ofRule: []string{}},
		{file: "services: [{ports: [80], correlation: x-own}]", args: []string{"--correlation", "none"}, want: []string{}, ofRule: []string{"x-own"}},
		{file: "services: [{ports: [80], correlation: [none]}]", want: all, ofRule: []string{}},
	} {
		file := tc.file
		if !strings.Contains(file, "services") {
			file += "\nservices: [{ports: [80]}]"
		}
		c, err := load(t, file, tc.environ, tc.args...)
		if err != nil {
			t.Fatalf("%q: %v", tc.file, err)
		}
		if of := c.CorrelationOf(&c.Services[0]); !slices.Equal(c.Correlation, tc.want) || !slices.Equal(of, tc.ofRule) {
			t.Errorf("%q, %v, %v: %q, of the rule %q, want %q, %q", tc.file, tc.environ, tc.args, c.Correlation, of, tc.want, tc.ofRule)
		}
	}
	c, err := load(t, "services: [{ports: [80], correlation: [b3, x-own]}, {ports: [81]}]\ncorrelation: [b3]", nil)
	if names := c.CorrelationNames(); err != nil || !slices.Equal(names, []string{"b3", "x-own"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// A file trusts nobody as a variable and a flag do; an empty list says the same.
func TestTrustNobody(t *testing.T) {
	for _, file := range []string{"trust: [none]", "trust: [\"none\"]", "trust: []"} {
		if c, err := load(t, file, nil, "--port", "80"); err != nil || len(c.Trust) > 0 {
			t.Errorf("%s: %v, %v", file, c.Trust, err)
		}
	}
}

// In a pod, the cluster is asked; elsewhere only if that is said.
func TestCluster(t *testing.T) {
	inPod := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "NODE_NAME=n1"}
	for _, tt := range []struct {
		env, args []string
		asks      bool
	}{
		{nil, nil, false},
		{nil, []string{"--kubernetes", "on"}, true},
		{inPod, nil, true},
		{inPod, []string{"--kubernetes", "off"}, false},
	} {
		c, err := load(t, "", tt.env, append([]string{"--port", "80"}, tt.args...)...)
		if err != nil || c.AsksCluster() != tt.asks {
			t.Errorf("%v %v: %v, %v", tt.env, tt.args, c.AsksCluster(), err)
		}
	}
	c, err := load(t, "services: [{namespace: shop, workload: Deployment/*, labels: {tier: web}, annotations: {team: r*}}]", inPod)
	want := config.Rule{Namespace: "shop", Workload: "Deployment/*", Labels: map[string]string{"tier": "web"}, Annotations: map[string]string{"team": "r*"}}
	if err != nil || !reflect.DeepEqual(c.Services, []config.Rule{want}) || c.Node != "n1" {
		t.Errorf("%+v, node %q, %v", c.Services, c.Node, err)
	}
	if got := c.Services[0].String(); got != "namespace shop, workload Deployment/*, label tier=web, annotation team=r*" {
		t.Errorf("says %q", got)
	}
}

// Without tags only stream offsets tell which spans belong together.
func TestNoTagsGiveOffsets(t *testing.T) {
	for _, tt := range []struct {
		args []string
		tag  string
		want bool
	}{
		{nil, config.TagTCP, false},
		{[]string{"--sequence"}, config.TagTCP, true},
		{[]string{"--tag", "tcp"}, config.TagTCP, false},
		{[]string{"--tag", "none"}, config.TagNone, true},
		{[]string{"--tag", "none", "--sequence"}, config.TagNone, true},
	} {
		if c, err := load(t, "", nil, append(tt.args, "--port", "80")...); err != nil || c.Tag != tt.tag || c.Sequence != tt.want {
			t.Errorf("%v: tag %q, sequence %t, %v", tt.args, c.Tag, c.Sequence, err)
		}
	}
	if c, err := load(t, "tag: none\nsequence: off", nil, "--port", "80", "--sequence"); err != nil || !c.Sequence {
		t.Errorf("a flag wins over the file: %v, %v", c.Sequence, err)
	}
}

func TestSelectorsKeepTheirOrder(t *testing.T) {
	c, err := load(t, "", nil, "--exe", "web=*/nginx", "--port", "shop=8080", "--cgroup", "/a=b/*", "--port", "1-2")
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Rule{
		{Name: "web", Executable: "*/nginx"},
		{Name: "shop", Ports: []config.PortRange{{First: 8080, Last: 8080}}},
		{Cgroup: "/a=b/*"},
		{Ports: []config.PortRange{{First: 1, Last: 2}}},
	}
	if !reflect.DeepEqual(c.Services, want) {
		t.Errorf("%+v", c.Services)
	}
}

// What is said of all services is for those that nothing more is known of; what
// is said of one is the rule's.
func TestLinking(t *testing.T) {
	c, err := load(t, example, []string{"TARE_LINKING=loop,shop=none"})
	if err != nil || c.Linking != config.Loop || c.Services[0].Linking != config.None || c.Services[1].Linking != config.Auto {
		t.Errorf("%v, %+v, %v", c.Linking, c.Services, err)
	}
	// A variable says it of rules that flags gave, and a flag of those that a variable gave.
	c, err = load(t, example, []string{"TARE_LINKING=shop=thread, cart=queue"}, "--port", "shop=8080", "--port", "cart=80", "--linking", "cart=none")
	if err != nil || len(c.Services) != 2 || c.Services[0].Linking != config.Thread || c.Services[1].Linking != config.None || c.Linking != config.Auto {
		t.Errorf("%v, %+v, %v", c.Linking, c.Services, err)
	}
	c, err = load(t, example, []string{"TARE_PORTS=shop=8080", "TARE_LINKING=loop"}, "--linking", "shop=queue")
	if err != nil || len(c.Services) != 1 || c.Services[0].Linking != config.Queue || c.Linking != config.Loop {
		t.Errorf("%v, %+v, %v", c.Linking, c.Services, err)
	}
	c, err = load(t, "", []string{"TARE_LINKING=loop"}, "--port", "shop=8080", "--exe", "shop=*/x", "--port", "80", "--linking", "shop=queue", "--linking", "thread")
	if err != nil || c.Linking != config.Thread ||
		c.Services[0].Linking != config.Queue || c.Services[1].Linking != config.Queue || c.Services[2].Linking != config.Auto {
		t.Errorf("%v, %+v, %v", c.Linking, c.Services, err)
	}
}

// numbers are names of headers.
func numbers(n int) string {
	var names []string
	for i := range n {
		names = append(names, "x-"+strconv.Itoa(i))
	}
	return strings.Join(names, ",")
}

func TestNothingSelected(t *testing.T) {
	_, err := load(t, "# empty", nil)
	if !errors.Is(err, config.ErrNoServices) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("%v", err)
	}
	if _, err := config.Load(nil, []string{"TARE_PORTS=8080"}); err != nil {
		t.Errorf("without flags: %v", err)
	}
	if _, err := config.Load(nil, []string{"TARE_CONFIG=/nonexistent/tare.yaml"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// What is wrong must be named: place, value, and what is allowed.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env, args  []string
		want       []string
	}{
		{name: "unknown key", file: "servces: []", want: []string{"tare.yaml:1", `"servces"`, "services"}},
		{name: "unknown key of a rule", file: "services:\n  - port: 80", want: []string{":2: services[0].(key)", `"port"`, "ports"}},
		{name: "port", file: "services:\n  - ports:\n    - 80\n    - 70000", want: []string{":4: services[0].ports[1]", `"70000"`, "65535"}},
		{name: "range", file: "services: [{ports: ['9-8']}]", want: []string{`"9-8"`}},
		{name: "signed port", file: "services: [{ports: ['+80']}]", want: []string{`"+80"`}},
		{name: "rule without selector", file: "services: [{name: x}]", want: []string{":1: services[0]", "ports, executable, cgroup"}},
		{name: "linking", file: "services: [{ports: [1], linking: magic}]", want: []string{"linking", `"magic"`, "thread"}},
		{name: "published", file: "services: [{ports: [1], published: mine}]", want: []string{"published", `"mine"`, "both, sdk"}},
		{name: "linking of all", args: []string{"--linking", "shop=thread,loop"}, want: []string{"--linking", `"thread,loop"`, "queue"}},
		{name: "linking of no rule", file: example, env: []string{"TARE_LINKING=shop=loop,cart=thread"}, want: []string{"TARE_LINKING", `"cart=thread"`, "the name of a rule"}},
		{
			name: "linking of a rule that is replaced", file: example, env: []string{"TARE_LINKING=shop=loop"}, args: []string{"--port", "80"},
			want: []string{"TARE_LINKING", `"shop=loop"`, "the name of a rule"},
		},
		{name: "linking of the nameless", file: example, args: []string{"--linking", "=thread"}, want: []string{"--linking", `"=thread"`, "the name of a rule"}},
		{name: "twice", file: "payload: on\npayload: off", want: []string{":2", "once"}},
		{name: "type", file: "services: 8080", want: []string{"services", `"8080"`, "list"}},
		{name: "null", file: "sampler:", want: []string{"sampler", "single value"}},
		{name: "not a mapping", file: "- a", want: []string{":1"}},
		{name: "two documents", file: "payload: on\n---\npayload: off", want: []string{"one YAML document"}},
		{name: "syntax", file: "a: [", want: []string{"tare.yaml"}},
		{name: "trust", file: "trust: [10.0.0.1/8]", want: []string{"trust[0]", `"10.0.0.1/8"`, "10.0.0.0/8"}},
		{name: "trust none among others", file: "trust: [none, host]", want: []string{`"none"`}},
		{name: "sampler", file: "sampler: sometimes", want: []string{`"sometimes"`, "parentbased_traceidratio"}},
		{name: "sampler variable", env: []string{"OTEL_TRACES_SAMPLER=jaeger_remote"}, want: []string{"OTEL_TRACES_SAMPLER:", `"jaeger_remote"`, "always_on"}},
		{name: "sampler arg", env: []string{"OTEL_TRACES_SAMPLER_ARG=NaN"}, want: []string{"OTEL_TRACES_SAMPLER_ARG", "0 to 1"}},
		{name: "exporter", env: []string{"OTEL_TRACES_EXPORTER=zipkin"}, want: []string{"OTEL_TRACES_EXPORTER", `"zipkin"`, "otlp, console"}},
		{name: "none and another", env: []string{"OTEL_TRACES_EXPORTER=otlp,none"}, want: []string{"OTEL_TRACES_EXPORTER", "none alone"}},
		{name: "disabled", env: []string{"OTEL_SDK_DISABLED=TRUE"}, want: []string{"OTEL_SDK_DISABLED", "always_off"}},
		{name: "resource", env: []string{"OTEL_RESOURCE_ATTRIBUTES=a=b,c%zz=d"}, want: []string{"OTEL_RESOURCE_ATTRIBUTES", `"c%zz=d"`}},
		{name: "protocol", env: []string{"OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, want: []string{"http/json", "grpc"}},
		{name: "budget", args: []string{"--budget", "1"}, want: []string{"--budget", `"1"`, "such as 1%", "such as 5us", "off"}},
		{name: "budget of more than there is", env: []string{"TARE_BUDGET=101%"}, want: []string{"TARE_BUDGET", `"101%"`}},
		{name: "budget of nothing", file: "budget: 0%", want: []string{":1: budget", `"0%"`}},
		{name: "budget of a minute", args: []string{"--budget", "1m"}, want: []string{"--budget", `"1m"`}},
		{name: "floor", args: []string{"--budget-floor", "0"}, want: []string{"--budget-floor", `"0"`, "1e-06 to 1"}},
		{name: "payload", args: []string{"--payload", "some"}, want: []string{"--payload", `"some"`, "off"}},
		{name: "metrics", env: []string{"TARE_METRICS=on"}, want: []string{"TARE_METRICS", `"on"`, "requests"}},
		{name: "correlation", file: "correlation: [b3, 'x id']", want: []string{":1: correlation", `"x id"`, "or none alone"}},
		{name: "correlation of a rule", file: "services: [{ports: [1], correlation: [none, b3]}]", want: []string{"services[0].correlation", `"none"`, "alone"}},
		{name: "correlation too long", args: []string{"--correlation", strings.Repeat("x", 32)}, want: []string{"--correlation", "31"}},
		{name: "correlation mapping", file: "correlation: {b3: on}", want: []string{"correlation", "single value"}},
		{name: "too many headers", args: []string{"--port", "80", "--correlation", numbers(33)}, want: []string{"correlation", "32"}},
		{name: "listen", args: []string{"--listen", "9464"}, want: []string{"--listen", `"9464"`, "127.0.0.1:9464"}},
		{name: "print", args: []string{"--print", "xml"}, want: []string{"--print", `"xml"`, "tree"}},
		{name: "port flag", args: []string{"--port", "=80"}, want: []string{"--port", `"=80"`}},
		{name: "empty glob", args: []string{"--exe", "name="}, want: []string{"--exe", `"name="`}},
		{name: "queue", file: "queue: 0", want: []string{"queue", `"0"`}},
		{name: "tag", args: []string{"--tag", "udp"}, want: []string{"--tag", `"udp"`, "tcp, ip, none"}},
		{name: "no tags and no offsets", file: "sequence: off", env: []string{"TARE_TAG=none"}, want: []string{"sequence", `"off"`, "tag: none"}},
		{name: "kubernetes", args: []string{"--kubernetes", "yes"}, want: []string{"--kubernetes", `"yes"`, "auto, on, off"}},
		{name: "a namespace of no cluster", args: []string{"--namespace", "shop"}, want: []string{"kubernetes", `"auto"`, "namespace shop"}},
		{name: "a label in no cluster", file: "kubernetes: off\nservices: [{labels: {app: shop}}]", env: []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"}, want: []string{"kubernetes", `"off"`, "label app=shop"}},
		{name: "labels", file: "services: [{labels: app}]", want: []string{"services[0].labels", `"app"`, "key: value"}},
		{name: "two at once", file: "queue: 0\npayload: 3", want: []string{"queue", "payload"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.file, tt.env, tt.args...)
			if err == nil || errors.Is(err, config.ErrNoServices) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestExporters(t *testing.T) {
	for v, want := range map[string][2]string{"": {"", ""}, "otlp": {"otlp", ""}, "console": {"", "tree"}, "otlp, console": {"otlp", "tree"}, "none": {"none", ""}} {
		c, err := load(t, example, []string{"OTEL_TRACES_EXPORTER=" + v, "OTEL_SDK_DISABLED=no"})
		if err != nil || c.Export.Exporter != want[0] || c.Print != want[1] {
			t.Errorf("%q: exporter %q, print %q, %v", v, c.Export.Exporter, c.Print, err)
		}
	}
	if c, err := load(t, example, []string{"OTEL_TRACES_EXPORTER=console", "TARE_PRINT=json"}); err != nil || c.Print != "json" {
		t.Errorf("print %q, %v", c.Print, err)
	}
}

// How often metrics are sent: by the file, OpenTelemetry's variables or the flag.
func TestMetricsInterval(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want time.Duration // -1: refused
	}{
		{nil, time.Minute},
		{[]string{"TARE_METRICS_INTERVAL=10s"}, 10 * time.Second},
		{[]string{"TARE_METRICS_INTERVAL=off"}, 0},
		{[]string{"OTEL_METRIC_EXPORT_INTERVAL=1500"}, 1500 * time.Millisecond},
		{[]string{"OTEL_METRIC_EXPORT_INTERVAL=1500", "OTEL_METRICS_EXPORTER=none"}, 0},
		{[]string{"OTEL_METRICS_EXPORTER=prometheus"}, 0},
		{[]string{"OTEL_METRICS_EXPORTER=otlp"}, time.Minute},
		{[]string{"OTEL_METRICS_EXPORTER=zipkin"}, -1},
		{[]string{"OTEL_METRIC_EXPORT_INTERVAL=1s"}, -1},
		{[]string{"TARE_METRICS_INTERVAL=10"}, -1},
		{[]string{"TARE_METRICS_INTERVAL=99ms"}, -1},
	} {
		got, err := load(t, example, c.env)
		if (err != nil) != (c.want < 0) || err == nil && got.MetricsInterval != c.want {
			t.Errorf("%v: %v, %v; want %v", c.env, got.MetricsInterval, err, c.want)
		}
	}
}
