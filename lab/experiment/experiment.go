// Package experiment reads an experiment file: which workloads under which
// tracers, rates and loads, how often and how long, and by which rules a run
// does not count. It refuses what it does not know: a wrong key, or a name that
// the file does not define, is an error that says where it is and what to do.
// Which drivers and workloads there are is not its business: package bench asks
// them.
package experiment

// Experiment is the content of an experiment file.
type Experiment struct {
	Name        string `yaml:"name" json:"name"`
	Title       string `yaml:"title" json:"title"`
	Description string `yaml:"description" json:"description"`

	Workloads []Workload `yaml:"workloads" json:"workloads"`
	// Tracers under test. The first is the baseline, and is run twice in every
	// round, the second time as the control.
	Tracers []Tracer `yaml:"tracers" json:"tracers"`
	Loads   []Load   `yaml:"loads" json:"loads"`

	Profiles map[string]Profile `yaml:"profiles" json:"profiles"`
	Rules    Rules              `yaml:"rules" json:"rules"`

	// Metrics that the report's tables show, by their keys. The rule max_spread
	// is about the first one.
	Metrics   []string   `yaml:"metrics" json:"metrics"`
	Figures   []Figure   `yaml:"figures" json:"figures,omitempty"`
	Questions []Question `yaml:"questions" json:"questions,omitempty"`
}

// Workload is a system under test and the requests that it gets.
type Workload struct {
	Name string `yaml:"name" json:"name"`
	// Kind is a chain of package workloads.
	Kind string            `yaml:"kind" json:"kind"`
	Path string            `yaml:"path" json:"path,omitempty"` // of every request, with the placeholder {size}; chains have their own
	Env  map[string]string `yaml:"env" json:"env,omitempty"`
	// Size of the payload in bytes, at most MaxSize: {size} in Path, and x of figures
	// by size; 0: unknown.
	Size int `yaml:"size" json:"size,omitempty"`
	// Post: requests are POSTs whose bodies have that size.
	Post bool `yaml:"post" json:"post,omitempty"`
	// Warmup is the least warm-up of this workload, where its requests take long.
	Warmup Duration `yaml:"warmup" json:"warmup,omitempty"`
	// Connections instead of the load's, where many requests are in flight.
	Connections int `yaml:"connections" json:"connections,omitempty"`
	// Spans of a complete trace; 0: unknown. Chains have a shape of their own.
	Spans int `yaml:"spans" json:"spans,omitempty"`
	// Fails is the share of the requests, 0…1, that the workload fails on purpose: no
	// rule excludes a run for these.
	Fails float64 `yaml:"fails" json:"fails,omitempty"`
	// Diagnose: `tare diagnose` reads the spans of checked runs, and the services that
	// it names are compared with those that the chain makes late.
	Diagnose bool `yaml:"diagnose" json:"diagnose,omitempty"`
	// Profile: base URL path of net/http/pprof, "" if there is none.
	Profile string `yaml:"profile" json:"profile,omitempty"`
	// ReadBack is the path that answers with the running configuration as JSON.
	ReadBack string `yaml:"read_back" json:"read_back,omitempty"`
	// Metrics is the path of the service's own metrics in Prometheus' text format, "" if
	// there are none. They must have a histogram of the durations of its requests, in
	// seconds: http_server_request_duration_seconds or http_request_duration_seconds.
	Metrics string `yaml:"metrics" json:"metrics,omitempty"`
	// Slow: requests that take longer count as slow, by the first bound of that histogram
	// that is not below it; 0: none do. It is asked which of them have a trace.
	Slow Duration `yaml:"slow" json:"slow,omitempty"`

	// Of kind command.
	Command []string `yaml:"command" json:"command,omitempty"` // with placeholders: {port}, {host}, {otlp}
	Health  string   `yaml:"health" json:"health,omitempty"`   // path that answers 2xx when the service is ready
	Port    int      `yaml:"port" json:"port,omitempty"`       // 0: a free one is found
	// Optional workloads that cannot run here are left out, and the report says so; without it, that is an error.
	Optional bool `yaml:"optional" json:"optional,omitempty"`
	// ReadyWithin bounds its start; 0: a minute.
	ReadyWithin Duration `yaml:"ready_within" json:"ready_within,omitempty"`
}

// Tracer is a way of tracing, at one rate or several.
type Tracer struct {
	Name   string    `yaml:"name" json:"name"`
	Driver string    `yaml:"driver" json:"driver"` // of package tracer
	Title  string    `yaml:"title" json:"title,omitempty"`
	Rates  []float64 `yaml:"rates" json:"rates,omitempty"` // sampling rates, 0…1
	// Env switches it on in the service, with placeholders: {rate}, {otlp}
	// (http://host:port of the sink), {otlp_addr} (host:port), {listen} (driver command:
	// host:port that services reach the tracer at).
	Env map[string]string `yaml:"env" json:"env,omitempty"`
	// At overrides Env at a rate, which is written as in Rates.
	At map[string]map[string]string `yaml:"at" json:"at,omitempty"`
	// Expect is what the running service must report, by key of its
	// configuration, with the same placeholders.
	Expect map[string]string `yaml:"expect" json:"expect,omitempty"`
	// ExpectAt overrides Expect at a rate.
	ExpectAt map[string]map[string]string `yaml:"expect_at" json:"expect_at,omitempty"`
	// Flags are added to the tracer's command line (driver tare).
	Flags []string `yaml:"flags" json:"flags,omitempty"`
	// Collector: the spans go through a collector that joins and makes whole
	// traces, and is a part of the tracer (drivers tare and env).
	Collector bool `yaml:"collector" json:"collector,omitempty"`
	// Keep are settings of tare_keep: that collector samples by the tail, and passes
	// on the traces that they keep. "{rate}" in a text is the sampling rate.
	Keep map[string]any `yaml:"keep" json:"keep,omitempty"`
	// Store: that collector stores what it is sent, too, spans and metrics, as a collector
	// without configuration does. How much of the disk that takes is measured.
	Store bool `yaml:"store" json:"store,omitempty"`
	// Process is how a tracer that is none of the others is started (driver command).
	Process *Process `yaml:"process" json:"process,omitempty"`
	// Fault is what is wrong behind the tracer, as the constants below say; "": it sends
	// its spans to an address, where they are taken.
	Fault Fault `yaml:"collector_fault" json:"collector_fault,omitempty"`
	// Processors are added to that collector, behind tare_tracer and tare_keep, in this
	// order: of each the name, and its settings.
	Processors []map[string]any `yaml:"processors" json:"processors,omitempty"`
	// Roots are the root decisions that the agent takes on a request (driver
	// tare); 0: one. Where nothing is on the wire, each service takes its own.
	Roots int `yaml:"roots" json:"roots,omitempty"`
	// Settling is on how many of the first requests the agent may take one more
	// (driver tare): until it knows that a path passes its tags on, the service
	// behind that path is an entry of its own. Their traces count as any other.
	Settling int `yaml:"settling" json:"settling,omitempty"`
	// StopAt is the stage from which on the agent does nothing, as its --stop-at says
	// (driver tare): there are no traces.
	StopAt string `yaml:"stop_at" json:"stop_at,omitempty"`
	// Neighbour: the agent traces another process, which idles (driver tare). What
	// does the workload pay for its hooks?
	Neighbour bool `yaml:"neighbour" json:"neighbour,omitempty"`
	// Sampler is the path at which the service tells the rate and the decisions of
	// its sampler as JSON, as the StateHandler of otel/adaptive does (driver env).
	// As many traces must arrive as it decided to sample, whatever its rate was.
	Sampler string `yaml:"sampler" json:"sampler,omitempty"`
	// Follow is the time between two questions to the sampler within the window,
	// which record its rate over time; 0: it is asked once, after the run.
	Follow Duration `yaml:"follow" json:"follow,omitempty"`
	// MeterOff: the meter takes no samples within the window, so that its own
	// effect on a measurement can be measured.
	MeterOff bool `yaml:"meter_off" json:"meter_off,omitempty"`
	// Optional tracers that cannot run here are left out, and the report says
	// so; without it, that is an error.
	Optional bool `yaml:"optional" json:"optional,omitempty"`
	// Workloads restricts it to some; empty: all.
	Workloads []string `yaml:"workloads" json:"workloads,omitempty"`
}

// Load is how requests are sent.
type Load struct {
	Name string `yaml:"name" json:"name"`
	// Rate in requests/s makes it an open loop; 0 a closed one.
	Rate float64 `yaml:"rate" json:"rate,omitempty"`
	// OrMost: if some variant does not hold Rate, the greatest rate below it
	// that all of them hold is found before the first round.
	OrMost bool `yaml:"or_most" json:"or_most,omitempty"`
	// OfMost is the share of that rate which is sent; 0: all of it. Latency is
	// worth comparing below the limit of the machine.
	OfMost float64 `yaml:"of_most" json:"of_most,omitempty"`
	// Connections: how many, and in a closed loop the requests in flight.
	Connections int `yaml:"connections" json:"connections"`
	// Tool is a driver of package load; "" is the laboratory's own generator.
	Tool string `yaml:"tool" json:"tool,omitempty"`
}

// Profile is a size of the experiment: smoke, quick or full.
type Profile struct {
	// Rounds of measurements; 0: requests are checked alone.
	Rounds int `yaml:"rounds" json:"rounds"`
	// RoundsOf overrides Rounds for tracers, by their names. The baseline, which all
	// are compared with, is in every round that has another variant of its cell.
	RoundsOf map[string]int `yaml:"rounds_of" json:"rounds_of,omitempty"`
	// EnvOf overrides the Env of tracers, by their names, where times within it depend
	// on the window's.
	EnvOf  map[string]map[string]string `yaml:"env_of" json:"env_of,omitempty"`
	Warmup Duration                     `yaml:"warmup" json:"warmup"`
	Window Duration                     `yaml:"window" json:"window"`
	// Cells restrict workloads, loads and tracers; empty: all with all.
	Cells []Subset `yaml:"cells" json:"cells,omitempty"`
	// Profiled runs per variant and cell whose workload has a profile; 0: none.
	Profiled      int      `yaml:"profiled" json:"profiled,omitempty"`
	ProfileWindow Duration `yaml:"profile_window" json:"profile_window,omitempty"`
	// Check is the number of requests whose traces are compared with the ground
	// truth, per variant and cell; 0: none.
	Check uint64 `yaml:"check" json:"check,omitempty"`
}

// Subset is a part of the grid. An empty list means all; Rates restricts the
// rates of tracers; an empty list of rates means none of them.
type Subset struct {
	Workloads []string             `yaml:"workloads" json:"workloads,omitempty"`
	Loads     []string             `yaml:"loads" json:"loads,omitempty"`
	Tracers   []string             `yaml:"tracers" json:"tracers,omitempty"`
	Rates     map[string][]float64 `yaml:"rates" json:"rates,omitempty"`
}

// Rules exclude runs; a zero rule excludes nothing.
type Rules struct {
	ErrorShare   float64  `yaml:"max_error_share" json:"max_error_share"`                     // failed requests of all
	Achieved     float64  `yaml:"min_achieved" json:"min_achieved"`                           // throughput of the offered load, open loop
	GeneratorLag Duration `yaml:"max_generator_lag_p99" json:"max_generator_lag"`             // of the generator alone
	Spread       float64  `yaml:"max_spread" json:"max_spread"`                               // |value/median of the variant − 1| of the first metric
	Answers      uint64   `yaml:"min_answers" json:"min_answers"`                             // within the window
	Sampled      float64  `yaml:"max_sampling_error" json:"max_sampling_error"`               // |observed − configured| in standard deviations
	Counted      float64  `yaml:"max_count_difference" json:"max_count_difference,omitempty"` // |server's / client's requests per second − 1|
	Stolen       float64  `yaml:"max_stolen" json:"max_stolen"`                               // CPU time that the hypervisor took, of the window's
}

// Figure is a plot of the results.
type Figure struct {
	ID    string `yaml:"id" json:"id"` // as in the source: "5.1"
	Title string `yaml:"title" json:"title"`
	Where Subset `yaml:"where" json:"where"`
	X     string `yaml:"x" json:"x"` // rate, load, tracer, workload, variant, size; time, with the special Y rates
	// Y is a metric's key, or one of the special ones: shares (CPU profile),
	// programs (ns per run of kernel programs), rates (of samplers over time).
	Y []string `yaml:"y" json:"y"`
	// As: value, ratio (to the baseline, in a round), or added (difference from
	// the baseline, in a round).
	As     string `yaml:"as" json:"as"`
	Series string `yaml:"series" json:"series,omitempty"` // one line or bar for each: load, tracer, workload
	Panel  string `yaml:"panel" json:"panel,omitempty"`   // one plot for each: load, tracer, workload
	Mean   string `yaml:"mean" json:"mean,omitempty"`     // averaged over: workload, load
	Form   string `yaml:"form" json:"form,omitempty"`     // line (default), bar
	Log    bool   `yaml:"log_x" json:"log_x,omitempty"`
	// Source says what the original reports, in words.
	Source string `yaml:"source" json:"source,omitempty"`
}

// Question is answered by a sentence and rows of comparisons.
type Question struct {
	ID     string  `yaml:"id" json:"id"`
	Ask    string  `yaml:"ask" json:"ask"`
	Source string  `yaml:"source" json:"source,omitempty"` // what the original answers
	Claims []Claim `yaml:"claims" json:"claims"`
}

// Claim compares variants: every variant that Where selects against the baseline,
// or against another tracer at the same rate. The baseline itself is compared with
// another tracer where Where names it.
type Claim struct {
	// Say is what the claim is about, with {} where the outcome belongs ("Tracing every request costs {}
	// CPU."): reports begin with the claims that have it.
	Say     string `yaml:"say" json:"say,omitempty"`
	Metric  string `yaml:"metric" json:"metric"`
	Where   Subset `yaml:"where" json:"where"`
	Against string `yaml:"against" json:"against,omitempty"` // tracer; "": the baseline
	// As: "added" compares by difference; "" by ratio, where there is one.
	As string `yaml:"as" json:"as,omitempty"`
	// ShareOfAdded asks which share of what Against adds to the baseline the
	// variant adds: (variant - baseline) / (Against - baseline), round by round.
	ShareOfAdded bool `yaml:"share_of_added" json:"share_of_added,omitempty"`
	// OfWorkloads asks for the share of the workloads whose runs have the value 1,
	// of a metric that is 0 or 1.
	OfWorkloads bool `yaml:"of_workloads" json:"of_workloads,omitempty"`
	// AtMost and AtLeast are targets for that share, or for the ratio to what
	// the variant is compared with, or, in the metric's own unit, for the
	// difference of a metric that is compared by difference (cores of a tracer) or
	// for a value without comparison: the answer says whether they are met. 0: none.
	AtMost  float64 `yaml:"at_most" json:"at_most,omitempty"`
	AtLeast float64 `yaml:"at_least" json:"at_least,omitempty"`
	Source  string  `yaml:"source" json:"source,omitempty"` // what the original reports of it
}
