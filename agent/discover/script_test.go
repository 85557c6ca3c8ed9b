package discover

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestScriptOf(t *testing.T) {
	for line, want := range map[string]string{
		"python3.11 /x/shop.py":                             "shop",
		"python3 -u -W ignore -X dev /srv/api.py --port 80": "api",
		"python3 -m http.server 8000":                       "http.server",
		"python3 /usr/bin/gunicorn shop:app":                "shop",
		"python3 /usr/bin/gunicorn -w 4 -b :80 -k uvicorn.workers.UvicornWorker company.shop.wsgi": "shop",
		"python3 /usr/bin/gunicorn --daemon app:app":                                               "gunicorn",
		"[/srv/shop] python3 /usr/bin/gunicorn --bind localhost:8000 app:create(1)":                "shop",
		"python3 -m uvicorn shop.main:app --host localhost":                                        "shop",
		"[/srv/shop/current] python3 /usr/bin/uvicorn main:app":                                    "shop",
		"python3 /usr/bin/celery -A shop.jobs worker":                                              "jobs",
		"python3 /usr/bin/celery --app=shop worker":                                                "shop",
		"[/srv/shop] python3 /usr/bin/flask run":                                                   "shop",
		"[/srv/shop] python3 manage.py runserver":                                                  "shop",
		"[/home/me] python3 manage.py runserver":                                                   "manage",
		"python3|gunicorn: worker [shop.wsgi]":                                                     "shop",
		"python3|gunicorn: worker [two words]":                                                     "",
		"python3 /srv/shop/__main__.py":                                                            "shop",
		"python3 -c import":                                                                        "",
		"python3":                                                                                  "",
		"python3 -":                                                                                "",
		"pypy3 a.py":                                                                               "a",
		"node --max-old-space-size=99 -r ./tracing.js /srv/server.js":                              "server",
		"node /srv/shop/index.js":                                                                  "shop",
		"node index.js":                                                                            "index",
		"[/srv/shop] node dist/main.js":                                                            "shop",
		"[/] node server.js":                                                                       "server",
		"node /srv/shop/releases/20261129/server.js":                                               "shop",
		"node /srv/shop/node_modules/.bin/next start":                                              "shop",
		"node|node /srv/shop/index.js":                                                             "shop",
		"node -e 1":                                                                                "",
		"nodejs --import x /a/b.mjs":                                                               "b",
		"java -Xmx1g -cp a.jar:b.jar com.example.Shop x":                                           "Shop",
		"java -javaagent:/a.jar -jar /srv/shop-1.2.jar --x":                                        "shop",
		"java -jar /srv/shop/app-1.0.0-SNAPSHOT-exec.jar":                                          "shop",
		"java -jar /srv/shop-api-2.jar":                                                            "shop-api",
		"java -cp x org.apache.catalina.startup.Bootstrap start":                                   "catalina",
		"java --add-opens java.base/java.lang=ALL-UNNAMED -jar s.jar":                              "s",
		"java -m com.example/com.example.Main":                                                     "example",
		"java @args com.example.Shop":                                                              "Shop",
		"java Shop.java":                                                                           "Shop",
		"ruby3.1 -I lib /usr/bin/puma -C x":                                                        "puma",
		"[/srv/shop] ruby3.1 /usr/bin/puma":                                                        "shop",
		"ruby3.1|puma 6.4 (tcp://0.0.0.0:9292) [shop]":                                             "shop",
		"[/srv/shop] ruby3.1|unicorn master -c unicorn.rb":                                         "shop",
		"ruby app.rb":                                "app",
		"php8.2 -d x=1 /srv/artisan serve":           "artisan",
		"php -S 127.0.0.1:8000 -t public":            "",
		"php -S 127.0.0.1:8000 -t public router.php": "router",
		"php -f /srv/shop/index.php":                 "shop",
		"perl -I lib -MFoo s.pl":                     "s",
		"dotnet /srv/Shop.dll --urls x":              "Shop",
		"nginx -c /x.conf":                           "",
		"pythonista /x.py":                           "",
		"php-fpm8.2 x":                               "",
	} {
		cwd, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] ")
		if !ok || line[0] != '[' {
			cwd, rest = "", line
		}
		args := strings.Fields(rest)
		if exe, title, ok := strings.Cut(rest, "|"); ok {
			args = []string{exe, title}
			if got := scriptOf(exe, args[1:], cwd); got != want {
				t.Errorf("%s: %q, want %q", line, got, want)
			}
			continue
		}
		if got := scriptOf(args[0], args, cwd); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func FuzzScriptOf(f *testing.F) {
	f.Add("java\x00-cp\x00x\x00a.B")
	f.Add("python3\x00-m")
	f.Add("node\x00--\x00/index.js")
	f.Add("puma 6.4 (tcp://[::]:80) [shop]")
	f.Fuzz(func(_ *testing.T, cmdline string) {
		args := strings.Split(cmdline, "\x00")
		for _, exe := range []string{"python3", "java", "node", "ruby", "php", "perl", "dotnet"} {
			scriptOf(exe, args, "/srv/current")
		}
	})
}

// startProgram runs a program that writes a line, until the test ends.
func startProgram(t *testing.T, argv0 string, args ...string) int {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if argv0 != "" {
		cmd.Args[0] = argv0
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
	}()
	select {
	case <-line:
	case <-time.After(time.Minute):
		t.Fatal("it does not run")
	}
	return cmd.Process.Pid
}

// A program that runs by a link is found by either name, and named by the link.
func TestLinkedExecutable(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(cat)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	checker, server := filepath.Join(dir, "redis-check-rdb"), filepath.Join(dir, "redis-server")
	if err := os.WriteFile(checker, text, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("redis-check-rdb", server); err != nil {
		t.Fatal(err)
	}
	for argv0, want := range map[string]string{"": "redis-server", "redis-server 127.0.0.1:6379": "redis-server", "redis-check-rdb": "redis-check-rdb", "renamed": "redis-check-rdb"} {
		pid := startProgram(t, argv0, server, "/proc/version", "-")
		for _, pattern := range []string{"*/redis-check-rdb", "*/" + want} {
			p, ok, err := inspect(New("", rules(t, "TARE_EXES="+pattern), nil), pid)
			if err != nil || !ok || p.Service.Name != want {
				t.Errorf("argv[0] %q, %s: %v, %v, %q; want %q", argv0, pattern, ok, err, p.Service.Name, want)
			}
		}
	}
}
