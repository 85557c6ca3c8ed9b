package otlphttp

// Endpoint is the URL that requests are sent to, as the options and the environment have it.
func (e *Exporter) Endpoint() string { return e.config.url.String() }
