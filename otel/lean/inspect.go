package lean

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// Sampler is the one in use, as its description tells: what was asked for and what runs may differ,
// where the environment decides.
func (p *TracerProvider) Sampler() sdktrace.Sampler { return p.sampler }

// Total is the number of spans that were thrown away, for whatever reason.
func (d Dropped) Total() uint64 {
	return d.QueueFull + d.QueueBytes + d.Shutdown + d.NoExporter + d.Undecided
}
