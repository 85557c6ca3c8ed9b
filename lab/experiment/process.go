package experiment

// Process is a tracer that is started by a command line (driver command). In its texts,
// {rate}, {otlp}, {otlp_addr}, {round} and {listen} are replaced as in Env, {ports} by the
// ports of the services, joined by commas, and {pids} by their processes; once it runs,
// {pid} by its own process.
type Process struct {
	// Command is started in the working directory of `tare bench`, beside the workload, and
	// must stay in the foreground. Variables that begin with OTEL_ are not inherited.
	Command []string          `yaml:"command" json:"command"`
	Env     map[string]string `yaml:"env" json:"env,omitempty"`
	// Ready says when it traces. One of the three is needed.
	Ready Ready `yaml:"ready" json:"ready"`
	// ReadyWithin bounds its start; 0: a minute.
	ReadyWithin Duration `yaml:"ready_within" json:"ready_within,omitempty"`
	// ReadBack is a command that prints the configuration which really runs: a JSON
	// object, or lines KEY=VALUE.
	ReadBack []string `yaml:"read_back" json:"read_back"`
	// Expect is what that must say; dots lead into objects.
	Expect map[string]string `yaml:"expect" json:"expect,omitempty"`
	// Within: its spans are of instrumentation within the services, which does not see what
	// others see on the wire.
	Within bool `yaml:"within" json:"within,omitempty"`
}

// Ready is how it is known that a process is ready.
type Ready struct {
	URL     string   `yaml:"url" json:"url,omitempty"`         // it answers with 2xx
	Output  string   `yaml:"output" json:"output,omitempty"`   // a regular expression of what it has written
	Command []string `yaml:"command" json:"command,omitempty"` // it ends with status 0
}
