package adaptive

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/rule"
)

const (
	// maxAlerts is how many alerts can raise rates at a time. A service has fewer rules than that;
	// labels that somebody invents must not take all memory.
	maxAlerts = 256
	// defaultAlertLimit is AlertConfig.Limit's default.
	defaultAlertLimit = time.Hour
)

// AlertConfig says what alerts do, see [Sampler.AlertHandler].
type AlertConfig struct {
	// Rules are tried in order; the first that matches an alert says what it does. An alert that
	// none matches changes nothing. nil: [DefaultAlertRules].
	Rules []AlertRule
	// Limit is how long after its start (startsAt) an alert raises rates at most, whether it is
	// resolved or not: above 0, at most 7 days. 0 is 1 h.
	Limit time.Duration
	// Token is what requests have to carry, as "Authorization: Bearer TOKEN". Empty: no token is
	// asked for, and the handler belongs where only Alertmanager and operators come.
	Token string
}

// AlertRule raises rates while alerts fire that it matches.
type AlertRule struct {
	// Match has the conditions: its Name is a pattern of the label alertname, its Attributes are
	// patterns of labels. It has no Kind. nil matches every alert.
	Match *rule.Rule
	// Rate is what is sampled at least while the alert fires: 0 to 1. 0 leaves the rates alone: it
	// keeps alerts from the rules that follow.
	Rate float64
	// Route is the route whose rate is raised; empty: those of all routes. It needs [WithRoutes].
	Route string
	// RouteLabel names the alert's label that has the route. Alerts without that label raise
	// Route, or all routes.
	RouteLabel string
}

// DefaultAlertRules go by the label severity: "critical" and "page" sample every trace, "error" half
// of them, "warning" a quarter. All else changes nothing.
func DefaultAlertRules() []AlertRule {
	severity := func(pattern string, rate float64) AlertRule {
		return AlertRule{Match: rule.MustCompile(rule.Spec{Attributes: map[string]string{"severity": pattern}}), Rate: rate}
	}
	return []AlertRule{severity("~^(critical|page)$", 1), severity("error", 0.5), severity("warning", 0.25)}
}

// validated returns the configuration with its defaults, or what is wrong.
func (c AlertConfig) validated(routes bool) (AlertConfig, error) {
	var errs []error
	if c.Rules == nil {
		c.Rules = DefaultAlertRules()
	}
	for i, r := range c.Rules {
		if !(r.Rate >= 0 && r.Rate <= 1) {
			errs = append(errs, fmt.Errorf("rule %d: rate is %v, want a number from 0 to 1", i+1, r.Rate))
		}
		if r.Match != nil && hasKind(r.Match) {
			errs = append(errs, fmt.Errorf("rule %d: alerts have no kind: leave it out of the conditions", i+1))
		}
		if (r.Route != "" || r.RouteLabel != "") && !routes {
			errs = append(errs, fmt.Errorf("rule %d: the sampler has one rate for all routes: make it with WithRoutes", i+1))
		}
	}
	if c.Limit == 0 {
		c.Limit = defaultAlertLimit
	}
	if c.Limit < 0 || c.Limit > maxIncident {
		errs = append(errs, fmt.Errorf("limit is %v, want above 0 and at most %v", c.Limit, maxIncident))
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("adaptive: alerts: %w", err)
	}
	return c, nil
}

func hasKind(r *rule.Rule) bool {
	var s rule.Spec
	return json.Unmarshal([]byte(r.String()), &s) == nil && s.Kind != ""
}

// notification is what Alertmanager's webhook sends, as far as it is read: version 4 of
// https://prometheus.io/docs/alerting/latest/configuration/#webhook_config. Later fields do not
// matter: unknown ones are passed over.
type notification struct {
	Version string       `json:"version"`
	Alerts  []firedAlert `json:"alerts"`
}

type firedAlert struct {
	Status   string            `json:"status"` // firing or resolved
	Labels   map[string]string `json:"labels"`
	StartsAt time.Time         `json:"startsAt"`
}

// parseAlerts refuses a notification as a whole if anything in it is wrong.
func parseAlerts(text []byte) ([]firedAlert, error) {
	var n notification
	if err := json.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("want the JSON of Alertmanager's webhook: %w", err)
	}
	if n.Version != "4" {
		return nil, fmt.Errorf("the notification's version is %q, want \"4\", which Alertmanager's webhook_configs send", n.Version)
	}
	for i, a := range n.Alerts {
		if a.Status != "firing" && a.Status != "resolved" {
			return nil, fmt.Errorf("alert %d: status is %q, want firing or resolved", i+1, a.Status)
		}
		if a.StartsAt.IsZero() {
			return nil, fmt.Errorf("alert %d has no startsAt", i+1)
		}
	}
	return n.Alerts, nil
}

// alertKey identifies an alert by its labels, as Alertmanager does.
type alertKey [sha256.Size]byte

func (a *firedAlert) key() alertKey {
	text, err := json.Marshal(a.Labels) // sorted by key
	if err != nil {
		panic(err) // not reached: strings
	}
	return sha256.Sum256(text)
}

// title is for people: the alert's name and severity.
func (a *firedAlert) title() string {
	t := cmp.Or(a.Labels["alertname"], "an alert without a name")
	if s := a.Labels["severity"]; s != "" {
		t += " (" + s + ")"
	}
	return strings.ToValidUTF8(t[:min(len(t), maxReason)], "\uFFFD")
}

// ruleFor returns the rule that applies to the alert, or nil.
func (c *AlertConfig) ruleFor(a *firedAlert) *AlertRule {
	span := rule.Span{Name: a.Labels["alertname"]}
	for k, v := range a.Labels {
		span.Attributes = append(span.Attributes, attribute.String(k, v))
	}
	for i := range c.Rules {
		if r := &c.Rules[i]; r.Match == nil || r.Match.Matches(span) {
			return r
		}
	}
	return nil
}

// activeAlert is an alert that raises rates, or that did until an operator ended it.
type activeAlert struct {
	Incident
	route    string // empty: all
	startsAt time.Time
	ended    bool // by an operator: it counts no more, also if it is repeated
}

// AlertTotals counts requests of [Sampler.AlertHandler], and the alerts in them, since the sampler
// began. An alert is counted each time that Alertmanager sends it.
type AlertTotals struct {
	Active   int    `json:"active"`   // that raise rates now
	Requests uint64 `json:"requests"` // that were taken
	Refused  uint64 `json:"refused"`  // requests: token, size or content is wrong
	Raised   uint64 `json:"raised"`   // began to raise rates
	Repeated uint64 `json:"repeated"` // known already
	Resolved uint64 `json:"resolved"`
	Ignored  uint64 `json:"ignored"` // no rule matches, its rate is 0, or what is resolved was not known
	Over     uint64 `json:"over"`    // firing for longer than the limit
	Full     uint64 `json:"full"`    // 256 others raise rates
}

// notify takes the alerts of a request.
func (s *Sampler) notify(c *AlertConfig, alerts []firedAlert, source string) {
	type change struct {
		alert *firedAlert
		key   alertKey
		rule  *AlertRule
		route string
	}
	changes := make([]change, len(alerts)) // without the lock, which decisions do not take but requests' ends do
	for i := range alerts {
		a := &alerts[i]
		ch := change{alert: a, key: a.key(), rule: c.ruleFor(a)}
		if ch.rule != nil && ch.rule.Rate > 0 && a.Status == "firing" {
			ch.route = cmp.Or(a.Labels[ch.rule.RouteLabel], ch.rule.Route)
			if ch.route != "" {
				s.learn(ch.route)
			}
		}
		changes[i] = ch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, in := s.clock(), &s.incidents
	in.expire(now)
	in.totals.Requests++
	for _, ch := range changes {
		old := in.alerts[ch.key]
		switch {
		case ch.alert.Status == "resolved" && old != nil:
			in.endAlert(ch.key, "ended", source, "resolved: "+old.Reason, now)
			in.totals.Resolved++
		case ch.alert.Status == "resolved" || ch.rule == nil || ch.rule.Rate == 0:
			in.totals.Ignored++
		case old != nil && !ch.alert.StartsAt.After(old.startsAt):
			in.totals.Repeated++
		default:
			from := ch.alert.StartsAt
			if from.After(now) { // clocks differ
				from = now
			}
			a := &activeAlert{route: ch.route, startsAt: ch.alert.StartsAt, Incident: Incident{
				Rate: ch.rule.Rate, Since: now, Until: from.Add(c.Limit), Source: source, Reason: ch.alert.title(),
			}}
			switch {
			case !now.Before(a.Until):
				in.totals.Over++
			case old == nil && len(in.alerts) >= maxAlerts:
				in.totals.Full++
			default:
				in.startAlert(ch.key, a, now)
				in.totals.Raised++
			}
		}
	}
	s.publish()
}

func (s *Sampler) refusedAlerts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incidents.totals.Refused++
}

// EndAlerts ends what alerts raise, and reports whether there was something to end. Those that fire
// now raise nothing any more until they are resolved and fire again.
func (s *Sampler) EndAlerts(reason string) bool { return s.endAlerts("program", reason) }

func (s *Sampler) endAlerts(source, reason string) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, in := s.clock(), &s.incidents
	for _, a := range in.firing() {
		a.ended, ended = true, true
		in.audit(a.event("ended", source, cmp.Or(reason, a.Reason), now))
	}
	s.publish()
	return ended
}

func (in *incidents) startAlert(k alertKey, a *activeAlert, now time.Time) {
	action := "started"
	if in.alerts[k] != nil {
		action = "replaced"
	}
	if in.alerts == nil {
		in.alerts = map[alertKey]*activeAlert{}
	}
	in.alerts[k] = a
	in.audit(a.event(action, a.Source, a.Reason, now))
}

func (in *incidents) endAlert(k alertKey, action, source, reason string, now time.Time) {
	a := in.alerts[k]
	delete(in.alerts, k)
	if !a.ended {
		in.audit(a.event(action, source, reason, now))
	}
}

func (in *incidents) expireAlerts(now time.Time) {
	for k, a := range in.alerts {
		if !now.Before(a.Until) {
			in.endAlert(k, "expired", a.Source, a.Reason, now)
		}
	}
}

// firing are the alerts that raise rates, in the order in which they began.
func (in *incidents) firing() []*activeAlert {
	var all []*activeAlert
	for _, a := range in.alerts {
		if !a.ended {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *activeAlert) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Reason, b.Reason), strings.Compare(a.route, b.route))
	})
	return all
}

func (a *activeAlert) event(action, source, reason string, now time.Time) Event {
	return Event{Time: now, Action: action, Source: source, Rate: a.Rate, Route: a.route, Until: untilOf(&a.Incident), Reason: reason[:min(len(reason), maxReason)]}
}

// raisedRoutes is the rate by route that alerts about single routes ask for; nil if there are none.
func (in *incidents) raisedRoutes() map[string]float64 {
	var m map[string]float64
	for _, a := range in.alerts {
		if a.route != "" && !a.ended {
			if m == nil {
				m = map[string]float64{}
			}
			m[a.route] = max(m[a.route], a.Rate)
		}
	}
	return m
}
