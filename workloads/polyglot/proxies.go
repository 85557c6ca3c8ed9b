package polyglot

import (
	"fmt"
	"path/filepath"
)

var (
	nginxPackage    = Need{File: "nginx", Package: "nginx", Unit: "nginx.service"}
	apachePackage   = Need{File: "apache2", Package: "apache2", Unit: "apache2.service"}
	caddyPackage    = Need{File: "caddy", Package: "caddy", Unit: "caddy.service"}
	haproxyPackage  = Need{File: "haproxy", Package: "haproxy", Unit: "haproxy.service"}
	lighttpdPackage = Need{File: "lighttpd", Package: "lighttpd", Unit: "lighttpd.service"}
	varnishPackage  = Need{File: "varnishd", Package: "varnish", Unit: "varnish.service"}
)

const apacheModules = "/usr/lib/apache2/modules"

func proxies() []Service {
	proxy := func(name, runtime string, worker Worker, today Linking, by string, need Need, argv func(p *Place) []string) Service {
		return Service{
			Name: name, Runtime: runtime, Framework: "proxy", Worker: worker, Client: "its own", Today: today, By: by, Proxy: true,
			Needs: []Need{need}, argv: argv,
		}
	}
	all := []Service{
		{
			Name: "caddy", Runtime: "Go", Framework: "proxy", Worker: Goroutine, Client: "its own", Today: Linked, Proxy: true,
			Built: []string{"caddy/bin/caddy"}, Part: "caddy",
			argv: func(p *Place) []string { return caddy(p, p.built("caddy/bin/caddy")) },
		},
		// Debian 12's is built with Go 1.19, which is older than what is read.
		proxy("caddy-debian", "Go", Goroutine, Unlinked, "goroutine: Go 1.21 or newer", caddyPackage, func(p *Place) []string {
			return caddy(p, p.program(caddyPackage))
		}),
		proxy("nginx", "C", Loop, Linked, "", nginxPackage, nginx),
		proxy("haproxy", "C", Loop, Linked, "", haproxyPackage, haproxy), // by its requests' text
		proxy("lighttpd", "C", Loop, Unlinked, "nothing known", lighttpdPackage, lighttpd),
		proxy("varnish", "C", Pool, Unlinked, "nothing known", varnishPackage, varnish),
	}
	all = append(all, withHeader(all)...)
	asking := Service{
		Name: "envoy", Runtime: "C++", Framework: "proxy", Worker: Loop, Client: "its own", Today: Linked, By: "x-request-id", Proxy: true, Header: true,
		Built: []string{"envoy/envoy/_bin/envoy"}, Part: "envoy", argv: func(p *Place) []string { return envoy(p, p.Backend, "http_protocol_options") },
	}
	all = append(all, asking)
	// One that asks another over HTTP/2: from HTTP/1 to 2, and back. A connection of HTTP/2 that is older than the agent is
	// not followed; here none gets old.
	asking.Name, asking.Fronted = "envoy-http2", true
	asking.front = func(p *Place) []string { return envoy(p, p.Inner, "http2_protocol_options") }
	all = append(all, asking)
	for _, mpm := range []string{"event", "worker", "prefork"} {
		worker := Thread
		if mpm == "prefork" {
			worker = Process
		}
		all = append(all, proxy("apache-"+mpm, "C", worker, Linked, "", apachePackage, func(p *Place) []string {
			return apache(p, mpm, `LoadModule proxy_http_module `+apacheModules+`/mod_proxy_http.so
ProxyPass "/" "http://`+p.at(p.Backend)+`/"`)
		}))
	}
	return all
}

// withHeader are those that nothing but a header links, with clients that send it.
func withHeader(all []Service) (more []Service) {
	for _, s := range all {
		if s.By == "nothing known" {
			s.Name, s.Header, s.Today, s.By = s.Name+"-header", true, Linked, "x-request-id"
			more = append(more, s)
		}
	}
	return more
}

func envoy(p *Place, next int, protocol string) []string {
	conf := p.file(fmt.Sprintf("envoy-%d.yaml", p.Port), `static_resources:
  listeners:
  - address: {socket_address: {address: %[1]s, port_value: %[2]d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: next}}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: next
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {%[4]s: {}}
        common_http_protocol_options: {max_requests_per_connection: 1000}
    circuit_breakers: {thresholds: [{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}]}
    load_assignment:
      cluster_name: next
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[1]s, port_value: %[3]d}}}}]}]
`, p.Host, p.Port, next, protocol)
	return []string{p.built("envoy/envoy/_bin/envoy"), "-c", conf, "--disable-hot-restart", "--log-level", "error", "--concurrency", "2"}
}

func caddy(p *Place, program string) []string {
	conf := p.file("Caddyfile", `{
	admin off
	auto_https off
	grace_period 1s
}
http://:%[1]d {
	bind %[2]s
	reverse_proxy %[3]s
}
`, p.Port, p.Host, p.at(p.Backend))
	return []string{program, "run", "--adapter", "caddyfile", "--config", conf}
}

func nginx(p *Place) []string {
	return nginxFront(p, `proxy_pass http://next;
            proxy_http_version 1.1;
            proxy_set_header Connection "";`, fmt.Sprintf("upstream next { server %s; keepalive 64; }", p.at(p.Backend)))
}

// nginxFront has nginx pass everything on, by further lines for all requests and for the server.
func nginxFront(p *Place, location, further string) []string {
	conf := p.file("front.conf", `daemon off;
worker_processes 2;
worker_rlimit_nofile 65536;
user nobody nogroup;
pid %[1]s/front.pid;
error_log stderr error;
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_timeout 300s;
    keepalive_requests 1000000;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    %[3]s
    server {
        listen %[2]s backlog=4096;
        location / {
            %[4]s
        }
    }
}
`, p.Dir, p.at(p.Port), further, location)
	return []string{p.program(nginxPackage), "-p", p.Dir, "-c", conf}
}

func haproxy(p *Place) []string {
	conf := p.file("haproxy.cfg", `defaults
    mode http
    timeout connect 30s
    timeout client 300s
    timeout server 60s
frontend in
    bind %[1]s
    default_backend out
backend out
    http-reuse always
    server next %[2]s
`, p.at(p.Port), p.at(p.Backend))
	return []string{p.program(haproxyPackage), "-db", "-f", conf}
}

func lighttpd(p *Place) []string {
	conf := p.file("lighttpd.conf", `server.modules = ("mod_proxy")
server.document-root = "%[1]s"
server.bind = "%[2]s"
server.port = %[3]d
server.listen-backlog = 4096
server.max-keep-alive-requests = 1000000
server.max-keep-alive-idle = 300
proxy.server = ("" => (("host" => "%[2]s", "port" => %[4]d)))
`, p.Dir, p.Host, p.Port, p.Backend)
	return []string{p.program(lighttpdPackage), "-D", "-f", conf}
}

func varnish(p *Place) []string {
	vcl := p.file("pass.vcl", `vcl 4.1;
backend default { .host = "%[1]s"; .port = "%[2]d"; }
sub vcl_recv { return (pass); }
`, p.Host, p.Backend)
	return []string{p.program(varnishPackage), "-F", "-n", filepath.Join(p.Dir, "varnish"), "-a", p.at(p.Port), "-f", vcl, "-s", "malloc,16m", "-j", "none"}
}

// apache has a worker for every connection of the largest load, and none that are spare end, since their kept
// connections would end with them.
func apache(p *Place, mpm, further string) []string {
	workers := "ServerLimit 4\nThreadLimit 256\nThreadsPerChild 256\nMaxRequestWorkers 1024\nMaxSpareThreads 1024"
	if mpm == "prefork" {
		workers = "ServerLimit 400\nMaxRequestWorkers 400\nStartServers 280\nMaxSpareServers 400"
	}
	conf := p.file("apache2.conf", `ServerRoot %[1]s
DefaultRuntimeDir %[1]s
PidFile %[1]s/apache2.pid
ServerName localhost
Listen %[2]s
ListenBacklog 4096
User nobody
Group nogroup
ErrorLog /dev/stderr
LogLevel error
LoadModule mpm_%[3]s_module %[4]s/mod_mpm_%[3]s.so
LoadModule authz_core_module %[4]s/mod_authz_core.so
LoadModule proxy_module %[4]s/mod_proxy.so
%[5]s
KeepAlive On
KeepAliveTimeout 300
MaxKeepAliveRequests 0
%[6]s
%[7]s
`, p.Dir, p.at(p.Port), mpm, apacheModules, workers, further, p.Further)
	return []string{p.program(apachePackage), "-D", "FOREGROUND", "-f", conf}
}
