package workloads

import (
	"context"
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// asks are the flags that make a program say its version.
var asks = map[string]string{
	"nginx":         "-v",
	"redis-server":  "--version",
	"valkey-server": "--version",
	"memcached":     "-V",
	"python3":       "--version",
	"postgres":      "--version",
}

// modules whose versions decide what tracing costs, by the names under which
// Versions reports them.
var modules = map[string]string{
	"go.opentelemetry.io/otel":                                                    "otel",
	"go.opentelemetry.io/otel/sdk":                                                "otel-sdk",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp":             "otlptracehttp",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc":             "otlptracegrpc",
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp":               "otelhttp",
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc": "otelgrpc",
	"google.golang.org/grpc":                                                      "grpc",
	"github.com/jackc/pgx/v5":                                                     "pgx",
	"github.com/exaring/otelpgx":                                                  "otelpgx",
	"github.com/bradfitz/gomemcache":                                              "gomemcache",
	"github.com/redis/go-redis/v9":                                                "go-redis",
	"github.com/redis/go-redis/extra/redisotel/v9":                                "redisotel",
}

// Versions of the running services, as far as they can be found out: those of
// the distribution's programs by asking them (nginx, redis-server, valkey-server, memcached,
// python3, postgres), those of Go programs by their build information (go, and
// the modules that are listed above). What is unknown is
// absent.
func (c *Chain) Versions(ctx context.Context) map[string]string {
	versions := map[string]string{}
	for _, s := range c.Services {
		name := filepath.Base(s.Exe)
		if strings.HasPrefix(name, "python3") { // python3.11
			name = "python3"
		}
		if kind, ok := strings.CutSuffix(name, "-check-rdb"); ok { // Debian's redis-server and valkey-server are links to it
			name = kind + "-server"
		}
		if flag, ok := asks[name]; ok {
			if v := askVersion(ctx, s.Exe, flag); v != "" {
				versions[name] = v
			}
			continue
		}
		info, err := buildinfo.ReadFile(s.Exe)
		if err != nil {
			continue // no Go program
		}
		versions["go"] = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if as, ok := modules[m.Path]; ok {
				if m.Replace != nil {
					m = m.Replace
				}
				versions[as] = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return versions
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)

// askVersion runs a program; nginx answers on standard error.
func askVersion(ctx context.Context, exe, flag string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, flag).CombinedOutput()
	if err != nil {
		return ""
	}
	return versionNumber.FindString(string(out))
}
