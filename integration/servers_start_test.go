package integration

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/workloads"
	"github.com/tare-trace/tare/workloads/polyglot"
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

// shimmed is a service with a shim that the environment loads, from the directory runtimes.
func shimmed(variable, value string, start func(*servers) *workloads.Process) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		root, err := filepath.Abs("..")
		if err != nil {
			c.t.Fatal(err)
		}
		c.env = append(c.env, variable+"="+strings.ReplaceAll(value, "{root}", root))
		return start(c)
	}
}

// goAsksBackend is goService, which asks the backend next.
func goAsksBackend(c *servers) *workloads.Process {
	return c.service("service", "", append(c.env, goServiceEnv+"="+loopback(c.entry), "NEXT="+loopback(c.backend)), os.Args[0])
}

func node(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "node", testdata("serve.js"), itoa(c.entry))
}

// nodeCluster is node in processes that another one passes connections on to.
func nodeCluster(c *servers) *workloads.Process {
	c.env = append(c.env, "WORKERS=2")
	return node(c)
}

func java(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "java", "-Xmx128m", testdata("Serve.java"), itoa(c.entry))
}

func uwsgi(c *servers) *workloads.Process {
	return c.service("service", "", c.env, "uwsgi", "--plugin", "python3", "--http-socket", loopback(c.entry), "--master", "--processes", "8",
		"--listen", "128", "--wsgi-file", testdata("wsgi.py"), "--callable", "application", "--disable-logging", "--die-on-term")
}

func phpServer(c *servers) *workloads.Process {
	return c.service("service", "", append(c.env, "PHP_CLI_SERVER_WORKERS=8"), "php", "-q", "-S", loopback(c.entry), testdata("app.php"))
}

func puma(args ...string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		return c.service("service", "", c.env, append([]string{"puma", "-e", "production", "-b", "tcp://" + loopback(c.entry), testdata("config.ru")}, args...)...)
	}
}

func unicorn(c *servers) *workloads.Process {
	conf := c.file("unicorn.rb", "worker_processes 8\n")
	return c.service("service", "", c.env, "unicorn", "-E", "production", "-c", conf, "-l", loopback(c.entry), testdata("config.ru"))
}

func handover(mode string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		return c.service("service", "", c.env, "ruby", testdata("handover.rb"), mode, itoa(c.entry))
	}
}

// proxy is one of package polyglot, with further lines of its configuration.
func (c *servers) proxy(name, further string) *workloads.Process {
	c.t.Helper()
	all := polyglot.All()
	i := slices.IndexFunc(all, func(s polyglot.Service) bool { return s.Name == name })
	commands, err := all[i].Commands(polyglot.Place{Host: "127.0.0.1", Port: c.entry, Backend: c.backend, Dir: c.g.Dir, Further: further})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.service("service", "", nil, commands[0].Argv...)
}

func apache(mpm string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		c.impatient = testkit.FreePort(c.t)
		c.selects("service", c.impatient)
		return c.proxy("apache-"+mpm, fmt.Sprintf(`Listen %[1]s
<VirtualHost %[1]s>
KeepAliveTimeout 100ms
ProxyPass "/" "http://%[2]s/"
</VirtualHost>`, loopback(c.impatient), loopback(c.backend)))
	}
}

func lighttpd(c *servers) *workloads.Process { return c.proxy("lighttpd", "") }

func varnish(c *servers) *workloads.Process { return c.proxy("varnish", "") }

func rewriting(c *servers) *workloads.Process {
	return c.haproxy("http-request set-path /r%[path]", "http-reuse always")
}

// haproxy passes everything on: with further lines in its frontend, then in its backend, then options of
// the server there.
func (c *servers) haproxy(further ...string) *workloads.Process {
	further = append(further, "", "", "")
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
    server next %s %s
    %s
`, loopback(c.entry), further[0], loopback(c.backend), further[2], further[1]))
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
