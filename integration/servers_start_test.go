package integration

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/tare-trace/tare/workloads"
)

// How the servers of servers_test.go are started: in the foreground, without
// files of the distribution's configuration.

// python is the distribution's, which has the packages for databases.
func python(mode string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		return c.service("service", "", c.env, "/usr/bin/python3", testdata("serve.py"), mode, itoa(c.entry))
	}
}

func gunicorn(args ...string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		return c.service("service", "", c.env, append([]string{"gunicorn", "-b", loopback(c.entry), "--chdir", testdata(""),
			"--backlog", "4096", "--worker-tmp-dir", c.g.Dir, "--log-level", "warning"}, append(args, "wsgi:application")...)...)
	}
}

func uvicorn(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "uvicorn", "--app-dir", testdata(""), "--host", "127.0.0.1", "--port", itoa(c.entry),
		"--workers", "1", "--log-level", "warning", "--no-access-log", "asgi:application")
}

func uwsgi(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "uwsgi", "--plugin", "python3", "--http-socket", loopback(c.entry), "--master", "--processes", "8",
		"--listen", "128", "--wsgi-file", testdata("wsgi.py"), "--callable", "application", "--disable-logging", "--die-on-term")
}

func phpServer(c *servers) *workloads.Process {
	return c.service("service", "", append(c.env, "PHP_CLI_SERVER_WORKERS=8"), "php", "-q", "-S", loopback(c.entry), testdata("app.php"))
}

func puma(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "puma", "-e", "production", "-b", "tcp://"+loopback(c.entry), "-t", "8:8", "-w", "2", testdata("config.ru"))
}

func apache(mpm string) func(*servers) *workloads.Process {
	// Enough for all connections at once, and none that are spare end: their kept connections end with them.
	workers := map[string]string{
		"event":   "ServerLimit 4\nThreadLimit 256\nThreadsPerChild 256\nMaxRequestWorkers 1024\nMaxSpareThreads 1024",
		"worker":  "ServerLimit 4\nThreadLimit 256\nThreadsPerChild 256\nMaxRequestWorkers 1024\nMaxSpareThreads 1024",
		"prefork": "ServerLimit 400\nMaxRequestWorkers 400\nStartServers 280\nMaxSpareServers 400",
	}[mpm]
	return func(c *servers) *workloads.Process {
		c.impatient = freePort(c.t)
		c.selects("service", c.impatient)
		conf := c.file("apache2.conf", fmt.Sprintf(`
ServerRoot %[1]s
DefaultRuntimeDir %[1]s
PidFile %[1]s/apache2.pid
ServerName localhost
Listen %[2]s
ListenBacklog 4096
User nobody
Group nogroup
ErrorLog /dev/stderr
LogLevel error
LoadModule mpm_%[3]s_module /usr/lib/apache2/modules/mod_mpm_%[3]s.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
%[4]s
KeepAlive On
KeepAliveTimeout 60
MaxKeepAliveRequests 0
ProxyPass "/" "http://%[5]s/"
Listen %[6]s
<VirtualHost %[6]s>
KeepAliveTimeout 100ms
ProxyPass "/" "http://%[5]s/"
</VirtualHost>
`, c.g.Dir, loopback(c.entry), mpm, workers, loopback(c.backend), loopback(c.impatient)))
		return c.service("service", "", nil, "apache2", "-D", "FOREGROUND", "-f", conf)
	}
}

func lighttpd(c *servers) *workloads.Process {
	conf := c.file("lighttpd.conf", fmt.Sprintf(`
server.modules = ("mod_proxy")
server.document-root = "%s"
server.bind = "127.0.0.1"
server.port = %d
server.listen-backlog = 4096
server.max-keep-alive-requests = 100000
proxy.server = ("" => (("host" => "127.0.0.1", "port" => %d)))
`, c.g.Dir, c.entry, c.backend))
	return c.service("service", "", nil, "lighttpd", "-D", "-f", conf)
}

func varnish(c *servers) *workloads.Process {
	vcl := c.file("pass.vcl", fmt.Sprintf(`vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "%d"; }
sub vcl_recv { return (pass); }
`, c.backend))
	dir := filepath.Join(c.g.Dir, "varnish")
	return c.service("service", "", nil, "varnishd", "-F", "-n", dir, "-a", loopback(c.entry), "-f", vcl, "-s", "malloc,16m", "-j", "none")
}

func rewriting(c *servers) *workloads.Process {
	return c.haproxy("http-request set-path /r%[path]", "http-reuse always")
}

// haproxy passes everything on: with further lines in its frontend, then in its backend.
func (c *servers) haproxy(further ...string) *workloads.Process {
	further = append(further, "", "")
	conf := c.file("haproxy.cfg", fmt.Sprintf(`
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
frontend in
    bind %s
    default_backend out
    %s
backend out
    server next %s
    %s
`, loopback(c.entry), further[0], loopback(c.backend), further[1]))
	return c.service("service", "", nil, "haproxy", "-db", "-f", conf)
}

// databaseDir makes a directory that a database's user owns, who may be root's
// only servant: databases refuse to run as root.
func (c *servers) databaseDir(name, owner string) (dir string, as []string) {
	c.t.Helper()
	u, err := user.Lookup(owner)
	if err != nil {
		refuse(c.t, "%v", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir = filepath.Join(c.g.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		c.t.Fatal(err)
	}
	return dir, []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}
}

func (c *servers) postgres(port int) {
	c.t.Helper()
	dir, as := c.databaseDir("postgres", "postgres")
	data := filepath.Join(dir, "data")
	initdb := filepath.Join(filepath.Dir(program("postgres")), "initdb")
	sh(c.t, append(as, initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--locale", "C")...)
	p := c.service("postgres", "", nil, append(as, program("postgres"), "-D", data, "-p", itoa(port), "-k", dir, "-h", "127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200")...)
	c.ready(p, loopback(port))
}

func (c *servers) mariadb(port int) {
	c.t.Helper()
	dir, as := c.databaseDir("mariadb", "mysql")
	data := filepath.Join(dir, "data")
	install := exec.CommandContext(c.t.Context(), program("setpriv"), append(as[1:], program("mariadb-install-db"), "--no-defaults",
		"--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %v\n%s", install, err, out)
	}
	p := c.service("mariadb", "", nil, append(as, program("mariadbd"), "--no-defaults", "--datadir="+data, "--port="+itoa(port),
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "socket"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-grant-tables", "--skip-networking=0", "--max-connections=200")...)
	c.ready(p, loopback(port))
}
