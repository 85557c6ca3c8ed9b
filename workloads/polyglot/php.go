package polyglot

import (
	"fmt"
	"strings"
)

var (
	phpPackage = Need{File: "php", Package: "php-cli"}
	phpRedis   = Need{File: "/usr/lib/php/*/redis.so", Package: "php-redis"}
	phpFPM     = Need{File: "/usr/sbin/php-fpm*", Package: "php-fpm", Unit: "php8.2-fpm.service"}
)

// fpmWorkers are as many as the largest load's connections: a front may keep one for each.
const fpmWorkers = "64"

func phpServices() []Service {
	php := func(name, framework string, s Service) Service {
		s.Name, s.Runtime, s.Framework, s.Worker, s.Client, s.Today = "php-"+name, "PHP", framework, Process, "file_get_contents", Linked
		s.Needs = append(s.Needs, phpPackage, phpRedis)
		s.Built, s.Part = []string{"php/app.php"}, "scripts"
		return s
	}
	return []Service{
		php("server", "php -S", Service{argv: func(p *Place) []string {
			return []string{"/usr/bin/env", "PHP_CLI_SERVER_WORKERS=16", p.program(phpPackage), "-q", "-S", p.at(p.Port), p.built("php/app.php")}
		}}),
		php("fpm-nginx", "php-fpm behind nginx", Service{Needs: []Need{phpFPM, nginxPackage}, Fronted: true, argv: fpm, front: fpmNginx}),
		php("fpm-apache", "php-fpm behind Apache", Service{Needs: []Need{phpFPM, apachePackage}, Fronted: true, argv: fpm, front: func(p *Place) []string {
			return apache(p, "event", `LoadModule proxy_fcgi_module `+apacheModules+`/mod_proxy_fcgi.so
ProxyPassMatch "^/n/" "fcgi://`+p.at(p.Inner)+p.built("php/app.php")+`"
ProxyFCGISetEnvIf "true" SCRIPT_FILENAME "`+p.built("php/app.php")+`"
ProxyFCGIBackendType GENERIC`)
		}}),
	}
}

func fpm(p *Place) []string {
	var env strings.Builder
	for k, v := range p.Environment() {
		env.WriteString("env[" + k + "] = " + v + "\n")
	}
	conf := p.file("php-fpm.conf", `[global]
pid = %[1]s/php-fpm.pid
error_log = /dev/stderr
daemonize = no
[www]
user = nobody
group = nogroup
listen = %[2]s
listen.backlog = 4096
pm = static
pm.max_children = %[3]s
%[4]s`, p.Dir, p.at(p.Port), fpmWorkers, env.String())
	return []string{p.program(phpFPM), "-F", "-R", "-y", conf}
}

func fpmNginx(p *Place) []string {
	return nginxFront(p, fmt.Sprintf(`fastcgi_pass %s;
            fastcgi_param SCRIPT_FILENAME %s;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;`, p.at(p.Inner), p.built("php/app.php")), "")
}
