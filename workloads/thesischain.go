package workloads

import "fmt"

// thesisHops are the services of a chain of thesis services, the entry first.
var thesisHops = []string{"first", "second", "third"}

const thesisPath = "/api/basic/"

// thesisChain: so many instances of the service of thesisPlan, each of which asks the
// next one before it answers. Options.Env configures all of them alike, but
// faults are injected by the last one alone, and come to the client through the
// others. Request 7 is /api/basic/7.
func thesisChain(services int) plan {
	hops := thesisHops[:services]
	return plan{
		truth:    thesisShape(hops).Always(),
		path:     thesisPath,
		services: hops,
		reserved: []string{"LISTEN", "NEXT", "OTEL_SERVICE_NAME"},
		specs:    func(b *builder) ([]spec, error) { return thesisServices(b, hops, hops) },
	}
}

// thesisServices are the services of such a chain, named by hops; each reaches the next
// one at the port of the same place in reached, which may be a proxy's.
func thesisServices(b *builder, hops, reached []string) ([]spec, error) {
	specs := make([]spec, len(hops))
	for i, name := range hops {
		env := map[string]string{"OTEL_SERVICE_NAME": name}
		if i < len(hops)-1 {
			next := b.service(reached[i+1])
			env["NEXT"] = fmt.Sprintf("http://%s", next.address())
			env["INJECT_ERRORS"], env["INJECT_SLOW"] = "0", "0"
		}
		s, err := goProcess(b, b.service(name), "tare-thesis", env)
		if err != nil {
			return nil, err
		}
		s.health, s.alike = "/health", true
		specs[i] = s
	}
	return specs, nil
}

func thesisShape(hops []string) Shape {
	if len(hops) == 1 {
		return serve(hops[0], thesisPath)
	}
	return serve(hops[0], thesisPath, call(hops[0], thesisPath, thesisShape(hops[1:])))
}
