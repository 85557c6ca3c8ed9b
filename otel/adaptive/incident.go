package adaptive

import (
	"fmt"
	"slices"
	"time"
)

// maxIncident is the longest time for which one request can raise the rate.
const maxIncident = 7 * 24 * time.Hour

// maxReason is in bytes: the audit keeps it.
const maxReason = 1024

// Incident is a raised rate. It bounds the rates of all routes from below until
// its time is over; MaxRate, pressure and the budget bound it from above.
type Incident struct {
	Rate   float64   // above 0, at most 1
	Since  time.Time // when it began
	Until  time.Time // zero: while its file exists
	Source string    // "program", "file", or "http" or "alertmanager" and the caller's address
	Reason string    // for people
}

// StartIncident raises the rate to at least rate for d, at most 7 days. It
// replaces an incident that was started before, but not that of a file: of the
// two the higher rate counts.
func (s *Sampler) StartIncident(rate float64, d time.Duration, reason string) error {
	return s.startIncident(rate, d, "program", reason)
}

func (s *Sampler) startIncident(rate float64, d time.Duration, source, reason string) error {
	if err := checkIncident(rate, d, reason); err != nil {
		return fmt.Errorf("adaptive: incident: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.incidents.start(bySwitch, Incident{Rate: rate, Since: now, Until: now.Add(d), Source: source, Reason: reason}, now)
	s.publish()
	return nil
}

// EndIncident ends what StartIncident or HTTP began, and reports whether there
// was something to end. A file's incident ends with the file.
func (s *Sampler) EndIncident(reason string) bool { return s.endIncident("program", reason) }

func (s *Sampler) endIncident(source, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.incidents.end(bySwitch, "ended", source, reason, s.clock())
	s.publish()
	return ended
}

func (s *Sampler) endAllIncidents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	for slot := range s.incidents.active {
		s.incidents.end(slot, "ended", "program", "shutdown", now)
	}
	for k := range s.incidents.alerts {
		s.incidents.endAlert(k, "ended", "program", "shutdown", now)
	}
	s.publish()
}

func checkIncident(rate float64, d time.Duration, reason string) error {
	if !(rate > 0 && rate <= 1) {
		return fmt.Errorf("rate is %v, want a number above 0 and at most 1", rate)
	}
	if d <= 0 || d > maxIncident {
		return fmt.Errorf("duration is %v, want above 0 and at most %v", d, maxIncident)
	}
	if len(reason) > maxReason {
		return fmt.Errorf("the reason has %d bytes, want at most %d", len(reason), maxReason)
	}
	return nil
}

// Incidents come from a program or from a file, and neither overwrites the other's.
const (
	bySwitch = iota
	byFile
	slots
)

// Event is a line of the audit: what happened to incidents.
type Event struct {
	Time   time.Time  `json:"time"`
	Action string     `json:"action"` // started, replaced, ended, expired or refused
	Source string     `json:"source"`
	Rate   float64    `json:"rate,omitempty"`
	Route  string     `json:"route,omitempty"` // of an alert about one route
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason,omitempty"` // of refused: the error
}

// maxEvents is how long the audit is; older lines are dropped.
const maxEvents = 64

type incidents struct {
	active  [slots]*Incident
	events  []Event
	dropped uint64
	problem string // with the file as it is now
	alerts  map[alertKey]*activeAlert
	totals  AlertTotals
}

// rate is the highest that is asked for all routes, 0 without an incident.
func (in *incidents) rate() (r float64) {
	for _, i := range in.active {
		if i != nil {
			r = max(r, i.Rate)
		}
	}
	for _, a := range in.alerts {
		if a.route == "" && !a.ended {
			r = max(r, a.Rate)
		}
	}
	return r
}

func (in *incidents) start(slot int, i Incident, now time.Time) {
	action := "started"
	if in.active[slot] != nil {
		action = "replaced"
	}
	in.active[slot] = &i
	in.audit(Event{Time: now, Action: action, Source: i.Source, Rate: i.Rate, Until: untilOf(&i), Reason: i.Reason})
}

func (in *incidents) end(slot int, action, source, reason string, now time.Time) bool {
	i := in.active[slot]
	if i == nil {
		return false
	}
	in.active[slot] = nil
	in.audit(Event{Time: now, Action: action, Source: source, Rate: i.Rate, Until: untilOf(i), Reason: reason})
	return true
}

func (in *incidents) expire(now time.Time) {
	for slot, i := range in.active {
		if i != nil && !i.Until.IsZero() && !now.Before(i.Until) {
			in.end(slot, "expired", i.Source, i.Reason, now)
		}
	}
	in.expireAlerts(now)
}

// fromFile takes what the watch saw.
func (in *incidents) fromFile(f fileNews, now time.Time) {
	if !f.changed {
		return
	}
	in.problem = ""
	switch {
	case f.err != nil:
		in.problem = f.err.Error()
		in.audit(Event{Time: now, Action: "refused", Source: "file", Reason: in.problem})
		in.end(byFile, "ended", "file", "the file cannot be used any more", now)
	case f.incident == nil:
		in.end(byFile, "ended", "file", "the file was removed", now)
	case !f.incident.Until.IsZero() && !now.Before(f.incident.Until):
		// An old file: over before it was seen, or over and touched.
		in.end(byFile, "expired", "file", f.incident.Reason, now)
	default:
		i := *f.incident
		i.Since = now
		in.start(byFile, i, now)
	}
}

func (in *incidents) audit(e Event) {
	if len(in.events) == maxEvents {
		in.events = slices.Delete(in.events, 0, 1)
		in.dropped++
	}
	in.events = append(in.events, e)
}

func untilOf(i *Incident) *time.Time {
	if i.Until.IsZero() {
		return nil
	}
	t := i.Until
	return &t
}
