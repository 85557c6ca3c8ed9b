package workloads

import "strconv"

// redisServer completes the spec of a Valkey or redis without a configuration file and
// without files of its own.
func redisServer(b *builder, s spec) (spec, error) {
	exe, err := redisPackage.executable()
	if err != nil {
		return spec{}, err
	}
	s.argv = []string{
		exe, "--bind", s.host, "--port", strconv.Itoa(s.port),
		"--save", "", "--appendonly", "no", "--dir", b.dir, "--daemonize", "no",
	}
	if b.opts.Network != nil {
		// Without a password, it would refuse whoever does not come by
		// loopback; its address exists on the veth pair only.
		s.argv = append(s.argv, "--protected-mode", "no")
	}
	return s, nil
}
