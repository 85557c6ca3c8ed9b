// Package agentreceiver runs Tare's agent inside a collector, as receiver `tare_agent`:
// it traces the services of this host by eBPF and passes their spans to a pipeline
// directly, without encoding them as OTLP.
//
// The agent's thread reads the kernel's records and must not wait for a pipeline.
// Therefore it copies spans into a bounded queue (key queue), from which one goroutine
// feeds the pipeline. Spans that find the queue full, or that the pipeline refuses, are
// lost and counted at the agent's /metrics as tare_lost_total with reason queue_full or
// refused.
//
// The receiver does not retry, because the pipeline owns a refused batch; it does not
// take settings from the environment, as the agent's command does; and it
// must not run twice on a host, because both would trace everything.
package agentreceiver
