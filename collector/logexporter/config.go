package logexporter

import (
	"errors"
	"time"

	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/otel/lean/logfile"
)

// Config is the exporter's section of a collector's configuration.
type Config struct {
	// Path of the file; its directory must exist.
	Path string `mapstructure:"path"`
	// PerRequest writes one line for each local root, with the spans of its service below it.
	PerRequest bool `mapstructure:"per_request"`
	// MaxFileSize and MaxFileAge rotate the file; default 64MiB and 1d.
	MaxFileSize storeextension.Size `mapstructure:"max_file_size"`
	MaxFileAge  duration.Duration   `mapstructure:"max_file_age"`
	// MaxTotalSize of all files together, the oldest are removed; default 1GiB.
	MaxTotalSize storeextension.Size `mapstructure:"max_total_size"`
	// Sync has every write wait until it is on the disk.
	Sync bool `mapstructure:"sync"`
	// Queue before the file.
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	_     struct{}
}

// Validate reports what cannot work.
func (c *Config) Validate() error {
	if c.Path == "" {
		return errors.New("`path` is empty: name the file that spans are written to")
	}
	if c.MaxFileAge < 0 {
		return errors.New("`max_file_age` is negative; 0 means the default")
	}
	return c.file().Validate()
}

func (c *Config) file() logfile.Config {
	return logfile.Config{
		Path: c.Path, PerRequest: c.PerRequest, MaxFileBytes: int64(c.MaxFileSize), MaxFileAge: time.Duration(c.MaxFileAge),
		MaxTotalBytes: int64(c.MaxTotalSize), Sync: c.Sync,
		HoldFor: -1, // behind tare_tracer, whole traces come at once
	}.WithDefaults()
}
