package polyglot

import "strings"

// pythons are CPython's versions; 3.11 is Debian 12's.
var pythons = []string{"3.11", "3.12", "3.13", "3.14"}

// asyncio is what is linked of a service with it: 3.11 makes a task for each call with a timeout (asyncio.wait_for),
// which does not tell whose it is.
func asyncio(version string) (Linking, string) {
	if version == "3.11" {
		return Partly, "shim"
	}
	return Linked, ""
}

func pythonServices() []Service {
	var all []Service
	for _, v := range pythons {
		python := func(framework, client string, worker Worker, today Linking, by string, argv ...string) {
			all = append(all, Service{
				Name: "python" + v + "-" + framework, Runtime: "CPython " + v, Framework: strings.ReplaceAll(framework, "-", " "),
				Worker: worker, Client: client, Today: today, By: by, Part: "python-" + v,
				Built: []string{"python/" + v + "/bin/" + argv[0]},
				argv: func(p *Place) []string {
					// The scripts' first line has a length that the kernel limits, and the path may be long.
					line := []string{p.built("python", v, "bin/python"), "-B", p.built("python", v, "bin", argv[0])}
					if argv[0] == "python" {
						line = line[:2]
					}
					place := strings.NewReplacer("{at}", p.at(p.Port), "{host}", p.Host, "{port}", p.Environment()["PORT"],
						"{src}", p.built("python"), "{dir}", p.Dir)
					for _, a := range argv[1:] {
						line = append(line, place.Replace(a))
					}
					return line
				},
			})
		}
		gunicorn := func(class string, worker Worker, today Linking, by string, flags ...string) {
			argv := append([]string{"gunicorn", "-b", "{at}", "--chdir", "{src}", "--backlog", "4096", "--worker-tmp-dir", "{dir}",
				"--no-control-socket", "--graceful-timeout", "1", "--log-level", "warning", "--keep-alive", "300", "-k", class}, flags...)
			python("gunicorn-"+class, "requests", worker, today, by, append(argv, "wsgi:application")...)
		}
		uvicorn := func(name, loop, http string, worker Worker, today Linking, by, factory string) {
			python("fastapi-"+name, "httpx", worker, today, by, "uvicorn", "--app-dir", "{src}", "--host", "{host}", "--port", "{port}",
				"--log-level", "warning", "--no-access-log", "--loop", loop, "--http", http, "--backlog", "4096", "--timeout-keep-alive", "300", "--timeout-graceful-shutdown", "1",
				"--factory", factory)
		}
		gunicorn("sync", Process, Linked, "", "-w", "8")
		gunicorn("gthread", Thread, Linked, "", "-w", "2", "--threads", "32")
		gunicorn("gevent", Greenlet, Linked, "", "-w", "2")
		python("eventlet", "requests", Greenlet, Linked, "", "python", "{src}/green.py") // gunicorn 27 has no worker for it
		python("uwsgi", "requests", Process, Linked, "", "uwsgi", "--http-socket", "{at}", "--master", "--processes", "8", "--listen", "1024",
			"--pythonpath", "{src}", "--module", "wsgi:application", "--disable-logging", "--die-on-term")
		python("threads", "requests", Thread, Linked, "", "python", "{src}/threads.py")
		async, asyncBy := asyncio(v)
		uvicorn("async", "asyncio", "h11", Task, async, asyncBy, "asgi:coroutine")
		uvicorn("uvloop", "uvloop", "httptools", Task, Unlinked, "task: the handle of its transport, in libuv", "asgi:coroutine")
		uvloop := &all[len(all)-1]
		uvloop.Built = append(uvloop.Built, "python/"+v+"/lib/python"+v+"/site-packages/uvloop")
		uvicorn("sync", "asyncio", "h11", Pool, Unlinked, "shim", "asgi:threads")
		python("aiohttp", "aiohttp", Task, async, asyncBy, "python", "{src}/aio.py", "aiohttp")
		python("streams", "aiohttp", Task, async, asyncBy, "python", "{src}/aio.py", "streams")
	}
	return all
}
