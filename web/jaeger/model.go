package jaeger

// The JSON of traces in Jaeger's query service. Times and durations are microseconds.
type (
	trace struct {
		TraceID   string             `json:"traceID"`
		Spans     []span             `json:"spans"`
		Processes map[string]process `json:"processes"`
		Warnings  []string           `json:"warnings"`
	}
	span struct {
		TraceID    string      `json:"traceID"`
		SpanID     string      `json:"spanID"`
		Operation  string      `json:"operationName"`
		References []reference `json:"references"`
		Start      uint64      `json:"startTime"`
		Duration   uint64      `json:"duration"`
		Tags       []keyValue  `json:"tags"`
		Logs       []log       `json:"logs"`
		ProcessID  string      `json:"processID"`
		Warnings   []string    `json:"warnings"`
	}
	reference struct {
		Type    string `json:"refType"` // CHILD_OF, FOLLOWS_FROM
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	}
	process struct {
		Service string     `json:"serviceName"`
		Tags    []keyValue `json:"tags"`
	}
	log struct {
		Timestamp uint64     `json:"timestamp"`
		Fields    []keyValue `json:"fields"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Type  string `json:"type"` // string, bool, int64, float64, binary
		Value any    `json:"value"`
	}
)
