package experiment

// Fault is what is wrong with the collector that a tracer sends its spans to. With any
// of them, that collector is known by a name, as in a cluster, and not by an address.
type Fault string

// Faults.
const (
	FaultNone       Fault = "none"       // nothing is wrong: for the comparison
	FaultSilent     Fault = "silent"     // it accepts connections and requests, and never answers
	FaultRefused    Fault = "refused"    // nobody listens: connections are refused
	FaultUnresolved Fault = "unresolved" // its name does not exist
)

var faults = []string{"", string(FaultNone), string(FaultSilent), string(FaultRefused), string(FaultUnresolved)}

// Broken reports whether no span can arrive.
func (f Fault) Broken() bool { return f != "" && f != FaultNone }

// NeedsNames reports whether any tracer asks for its collector by a name.
func (e *Experiment) NeedsNames() bool {
	for i := range e.Tracers {
		if e.Tracers[i].Fault != "" {
			return true
		}
	}
	return false
}
