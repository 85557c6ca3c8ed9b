// Package agentreceiver runs Tare's agent inside a collector, as receiver
// `tare_agent`: it traces the services of this host by eBPF and hands their
// spans to a pipeline, without encoding them or sending them anywhere between.
//
// The agent's thread reads the kernel's records and must not wait for a
// pipeline: spans are copied into a queue that is bounded (key queue), and one
// goroutine feeds the pipeline. What finds the queue full, or what the pipeline
// refuses, is lost and counted at the agent's /metrics as tare_lost_total with
// reason queue_full or refused.
//
// It refuses to retry, since a refused batch no longer belongs to it; to take
// the settings of a service from the environment, as the agent's command does;
// and to run twice in one process on one host: both would trace everything.
package agentreceiver
