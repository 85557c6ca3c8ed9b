package storeexporter

import (
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Config is the exporter's section of a collector's configuration.
type Config struct {
	// Store is the id of the extension that holds the store; default tare_store.
	Store component.ID `mapstructure:"store"`
	// Timeout of one write; default 5s.
	exporterhelper.TimeoutConfig `mapstructure:",squash"`
	// Queue before the store, by default for 200,000 spans. When it is full, spans are
	// refused and counted (otelcol_exporter_enqueue_failed_spans). It is kept on disk if
	// `storage` names a file_storage extension.
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	// Retry of writes that failed for another reason than a full disk; by default for 30s.
	Retry configretry.BackOffConfig `mapstructure:"retry_on_failure"`
	_     struct{}
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.Store == (component.ID{}) {
		return errors.New("`store` is empty: name the extension that holds the store, tare_store by default")
	}
	return nil
}
