package workloads

import "embed"

//go:embed nginx/*.conf
var nginxFiles embed.FS

// nginxPlan: an nginx in front of an nginx that answers 13 bytes (ChainScope,
// figure 4). Request 7 is /n/7.
var nginxPlan = plan{
	requires: []Requirement{nginxPackage},
	truth:    nginxShape.Always(),
	path:     "/n/",
	services: []string{"proxy", "backend"},
	specs: func(b *builder) ([]spec, error) {
		proxy, err := b.nginx(nginxFiles, "nginx/proxy.conf", "proxy", "backend")
		if err != nil {
			return nil, err
		}
		backend, err := b.nginx(nginxFiles, "nginx/backend.conf", "backend", "")
		if err != nil {
			return nil, err
		}
		return []spec{proxy, backend}, nil
	},
}

var nginxShape = serve("proxy", "/n/",
	call("proxy", "/n/", serve("backend", "/n/")))
