package polyglot

func nodeServices() []Service {
	var all []Service
	for _, v := range []struct{ version, program string }{
		{"20", ""}, // Debian's, or whatever is installed in its place
		{"22", "node/node_modules/node22/bin/node"},
		{"24", "node/node_modules/node24/bin/node"},
	} {
		for _, framework := range []string{"http", "express"} {
			s := Service{
				Name: "node" + v.version + "-" + framework, Runtime: "Node.js " + v.version, Framework: framework,
				Worker: Loop, Client: "fetch", Today: Unlinked, By: "shim",
				Built: []string{"node/service.js", "node/node_modules/express"}, Part: "node",
			}
			if v.program != "" {
				s.Built = append(s.Built, v.program)
			} else {
				s.Needs = []Need{nodePackage}
			}
			s.argv = func(p *Place) []string {
				node := p.built(v.program)
				if v.program == "" {
					node = p.program(nodePackage)
				}
				return []string{node, p.built("node/service.js"), framework}
			}
			all = append(all, s)
		}
	}
	return all
}

var nodePackage = Need{File: "node", Package: "nodejs"}
