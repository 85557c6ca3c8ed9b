package workloads

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed collector/*.yaml
var collectorFiles embed.FS

// collectorPlan: a collector under OTLP, as two hosts' agents send it. The
// variable COLLECTOR says which: plain, an OpenTelemetry Collector of the core
// modules, or one of tare's configurations in collector/. OTLP is where it
// forwards to, COMPRESSION how (none by default).
var collectorPlan = plan{
	path:     "/v1/traces",
	fixed:    true,
	services: []string{"collector"},
	more:     []string{metricsPort},
	reserved: []string{"HOST", "PORT", "METRICS_PORT", "STORE"},
	traffic:  true,
	specs: func(b *builder) ([]spec, error) {
		s, err := b.collector()
		return []spec{s}, err
	},
}

// metricsPort names the port of a service's Prometheus endpoint.
const metricsPort = "metrics"

func (b *builder) collector() (spec, error) {
	which := b.opts.Env["COLLECTOR"]
	config, err := b.file(collectorFiles, "collector/"+which+".yaml")
	if err != nil {
		return spec{}, fmt.Errorf("COLLECTOR=%q: there are %s", which, strings.Join(collectors(), ", "))
	}
	// The link to the laboratory is nobody else's: no TLS.
	exe, argv := "tare", []string{"collector", "--plaintext", "--config", config}
	if which == "plain" {
		exe, argv = "tare-plain-collector", []string{"--config", config}
	}
	path, err := serviceBinary(exe, b.opts.Bin)
	if err != nil {
		return spec{}, err
	}
	store := filepath.Join(b.dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		return spec{}, err
	}
	s := b.service("collector")
	s.metrics = b.ports[metricsPort]
	s.argv = append([]string{path}, argv...)
	s.env = environ([]string{"PATH=/usr/bin:/bin", "HOME=" + b.dir}, map[string]string{"COMPRESSION": "none"}, b.opts.Env, map[string]string{
		"HOST": s.host, "PORT": strconv.Itoa(s.port), "METRICS_PORT": strconv.Itoa(s.metrics), "STORE": store,
	})
	return s, nil
}

// collectors that there are configurations of.
func collectors() []string {
	files, err := fs.Glob(collectorFiles, "collector/*.yaml")
	if err != nil { // the pattern is a constant
		panic(err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files
}
