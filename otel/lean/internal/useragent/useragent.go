// Package useragent has the exporters' User-Agent header, as the OTLP exporter
// specification defines it ("User Agent").
package useragent

import "runtime/debug"

const module = "github.com/tare-trace/tare/otel"

// String returns the name with the version of the module in this program,
// "devel" if it was not built from a released one.
func String() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				version = m.Version
			}
		}
	}
	return "Tare-OTLP-Exporter-Go/" + version
}
