package polyglot

import (
	"slices"
	"strings"
	"testing"
)

// What is loaded is named by a variable of the runtime's, before the command of the service as it is.
func TestWithLoadsByTheEnvironment(t *testing.T) {
	all := All()
	service := func(name string) Service {
		return all[slices.IndexFunc(all, func(s Service) bool { return s.Name == name })]
	}
	for _, c := range []struct{ name, what, part, variable string }{
		{"python3.11-fastapi-async", Shim, "shims", "PYTHONPATH=/b/shims/python"},
		{"python3.12-aiohttp", SDK, "sdk-python-3.12", "PYTHONPATH=/b/sdk/python/3.12/opentelemetry/instrumentation/auto_instrumentation:/b/sdk/python/3.12"},
		{"java17-tomcat-client", Shim, "shims", "JAVA_TOOL_OPTIONS=-javaagent:/b/shims/tare-java.jar"},
		{"java17-tomcat-client", SDK, "sdk-java", "JAVA_TOOL_OPTIONS=-javaagent:/b/sdk/java/opentelemetry-javaagent.jar"},
		{"node24-http", Shim, "shims", "NODE_OPTIONS=--require=/b/shims/node/tare.js"},
		{
			"node24-http", SDK, "sdk-node",
			"NODE_OPTIONS=--require=/b/sdk/node/node_modules/@opentelemetry/auto-instrumentations-node/dist/register.cjs " +
				"--experimental-loader=/b/sdk/node/node_modules/@opentelemetry/instrumentation/hook.mjs",
		},
	} {
		plain := service(c.name)
		s, err := plain.With(c.what)
		if err != nil {
			t.Errorf("%s with %s: %v", c.name, c.what, err)
			continue
		}
		p := Place{Built: "/b"}
		want := append([]string{"env", c.variable}, plain.argv(&p)...)
		if got := s.argv(&p); !slices.Equal(got, want) || s.Part != c.part || len(s.Built) <= len(plain.Built) {
			t.Errorf("%s with %s: %q of %s with %q, want %q of %s", c.name, c.what, got, s.Part, s.Built, want, c.part)
		}
	}
	for name, what := range map[string]string{"cpp-threads": SDK, "ruby-webrick": Shim, "node24-http": "profiler"} {
		if _, err := service(name).With(what); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s with %s: error %v", name, what, err)
		}
	}
}
