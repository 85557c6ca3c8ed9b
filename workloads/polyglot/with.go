package polyglot

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// withShims adds the services whose work only a shim tells (runtimes/), with it.
func withShims(all []Service) []Service {
	for _, s := range all {
		if s.By != "shim" || s.Runtime == "Ruby" {
			continue
		}
		s, err := s.With(Shim)
		if err != nil {
			panic(err) // no service that says so is of another language
		}
		s.Name += "-shim"
		s.Today, s.By = Linked, ""
		if strings.HasPrefix(s.Runtime, "Node") || strings.HasSuffix(s.Name, "-shared-shim") { // redis' client has one connection for all
			s.Today, s.By = Partly, "a connection for each request"
		}
		all = append(all, s)
	}
	return all
}

// What the environment can load into a service, which is as it is otherwise.
const (
	Shim = "shim" // of runtimes/
	SDK  = "sdk"  // OpenTelemetry's own instrumentation, which needs no change to the code
)

// With is the service with what the environment loads into it.
func (s Service) With(what string) (Service, error) {
	language, version, _ := strings.Cut(s.Runtime, " ")
	loads, known := map[string]map[string]loaded{
		Shim: {
			"CPython": {"shims", []string{"shims/python"}, "PYTHONPATH=%s"},
			"Java":    {"shims", []string{"shims/tare-java.jar"}, "JAVA_TOOL_OPTIONS=-javaagent:%s"},
			"Node.js": {"shims", []string{"shims/node/tare.js"}, "NODE_OPTIONS=--require=%s"},
		},
		SDK: {
			"CPython": {"sdk-python-" + version, []string{"sdk/python/" + version, "sdk/python/" + version + "/opentelemetry/instrumentation/auto_instrumentation"}, "PYTHONPATH=%[2]s:%[1]s"},
			"Java":    {"sdk-java", []string{"sdk/java/opentelemetry-javaagent.jar"}, "JAVA_TOOL_OPTIONS=-javaagent:%s"},
			"Node.js": {"sdk-node", []string{
				"sdk/node/node_modules/@opentelemetry/auto-instrumentations-node/dist/register.cjs", "sdk/node/node_modules/@opentelemetry/instrumentation/hook.mjs",
			}, "NODE_OPTIONS=--require=%s --experimental-loader=%s"},
		},
	}[what]
	if !known {
		return s, fmt.Errorf("nothing is called %q that a service could load: there are %s and %s", what, Shim, SDK)
	}
	l, known := loads[language]
	if !known {
		return s, fmt.Errorf("there is no %s for %s", what, s.Runtime)
	}
	plain := s.argv
	s.Built, s.Part = slices.Concat(s.Built, l.files), l.part
	s.argv = func(p *Place) []string {
		var files []any
		for _, f := range l.files {
			files = append(files, p.built(filepath.FromSlash(f)))
		}
		return slices.Concat([]string{"env", fmt.Sprintf(l.variable, files...)}, plain(p))
	}
	return s, nil
}

// loaded is how something is loaded: the part of build.sh that makes its files, and the variable that names them.
type loaded struct {
	part     string
	files    []string
	variable string
}
