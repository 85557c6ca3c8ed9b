package workloads

import "strconv"

// thesisPlan: one Go service with five endpoints that differ in what they do
// per request, instrumented with the OpenTelemetry SDK; Options.Env says how.
// See thesis/main.go.
var thesisPlan = plan{
	path:     "/api/basic",
	fixed:    true,
	choose:   true,
	services: []string{"thesis"},
	reserved: []string{"LISTEN"},
	specs: func(b *builder) ([]spec, error) {
		s, err := goService(b, "thesis", nil)
		return []spec{s}, err
	},
}

// counterPlan: a Go service that increments a number in redis with every
// request; redis runs on the laboratory's side. See counter/main.go.
var counterPlan = plan{
	requires: []Requirement{redisPackage},
	path:     "/",
	fixed:    true,
	services: []string{"counter", "redis"},
	reserved: []string{"LISTEN", "REDIS_SERVER"},
	specs: func(b *builder) ([]spec, error) {
		redis, err := redisServer(b, spec{
			name: "redis", host: b.outside, port: b.ports["redis"], dependency: true,
		})
		if err != nil {
			return nil, err
		}
		counter, err := goService(b, "counter", map[string]string{"REDIS_SERVER": redis.address()})
		return []spec{counter, redis}, err
	},
}

// goService is one of our own services, in an environment of its own: nothing
// that the caller's environment says of OpenTelemetry or Go changes a run.
func goService(b *builder, name string, env map[string]string) (spec, error) {
	s, err := goProcess(b, b.service(name), "tare-"+name, env)
	s.health = "/health"
	return s, err
}

// goProcess completes the spec of one of our own programs.
func goProcess(b *builder, s spec, program string, env map[string]string, args ...string) (spec, error) {
	exe, err := serviceBinary(program, b.opts.Bin)
	if err != nil {
		return spec{}, err
	}
	s.argv = append([]string{exe}, args...)
	s.env = environ(
		[]string{"PATH=/usr/bin:/bin", "HOME=" + b.dir},
		b.opts.Env, env, map[string]string{"LISTEN": s.host + ":" + strconv.Itoa(s.port)},
	)
	return s, nil
}
