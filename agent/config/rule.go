package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/agent/cluster"
)

// Rule selects processes and says how to trace them. All selectors that it has must
// match; a rule without any is an error.
type Rule struct {
	Name       string // service.name, "" to derive it
	Ports      []PortRange
	Executable string // glob on the path of the executable
	Cgroup     string // glob on the path in the cgroup v2 tree
	// Of processes in a Kubernetes cluster's containers:
	Namespace   string            // glob
	Workload    string            // glob on "Deployment/shop"; of a pod that nothing made "Pod/shop"
	Labels      map[string]string // globs on the values of the pod's labels
	Annotations map[string]string // the same of its annotations
	Linking     Linking
	Published   Published
	// Correlation are headers that link calls that nothing else links; nil: those of Config.Correlation.
	Correlation []string
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct{ First, Last uint16 }

// Contains reports whether the port is in the range.
func (r PortRange) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return strconv.Itoa(int(r.First)) + "-" + strconv.Itoa(int(r.Last))
}

const portRange = `a port from 1 to 65535, or a range such as "9000-9010"`

// ParsePorts reads "8080" or "9000-9010".
func ParsePorts(where, text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := a, error(nil)
	if isRange {
		b, err2 = strconv.ParseUint(last, 10, 16)
	}
	if err1 != nil || err2 != nil || a == 0 || a > b || first[0] == '+' {
		return PortRange{}, &Error{where, text, portRange}
	}
	return PortRange{uint16(a), uint16(b)}, nil
}

// WantsPort reports whether the rule selects one of these listening ports; true for a
// rule without ports.
func (r *Rule) WantsPort(listening []uint16) bool {
	if len(r.Ports) == 0 {
		return true
	}
	for _, p := range listening {
		for _, want := range r.Ports {
			if want.Contains(p) {
				return true
			}
		}
	}
	return false
}

// WantsExecutable reports whether the rule's pattern matches the path.
func (r *Rule) WantsExecutable(path string) bool {
	return r.Executable == "" || Glob(r.Executable, path)
}

// WantsCgroup reports whether the rule's pattern matches the path.
func (r *Rule) WantsCgroup(path string) bool {
	return r.Cgroup == "" || Glob(r.Cgroup, path)
}

// WantsCluster reports whether the rule is for what runs in a cluster's containers.
func (r *Rule) WantsCluster() bool {
	return r.Namespace != "" || r.Workload != "" || len(r.Labels) > 0 || len(r.Annotations) > 0
}

// WantsContainer reports whether the rule's patterns match a cluster's container; nil is a
// process that is in none.
func (r *Rule) WantsContainer(c *cluster.Container) bool {
	if !r.WantsCluster() {
		return true
	}
	if c == nil {
		return false
	}
	all := func(patterns, have map[string]string) bool {
		for key, pattern := range patterns {
			if v, ok := have[key]; !ok || !Glob(pattern, v) {
				return false
			}
		}
		return true
	}
	by := c.Pod.Workload()
	return (r.Namespace == "" || Glob(r.Namespace, c.Pod.Namespace)) && (r.Workload == "" || Glob(r.Workload, by.Kind+"/"+by.Name)) &&
		all(r.Labels, c.Pod.Labels) && all(r.Annotations, c.Pod.Annotations)
}

// String says what the rule looks for.
func (r *Rule) String() string {
	var parts []string
	for _, p := range r.Ports {
		parts = append(parts, p.String())
	}
	if len(parts) > 0 {
		parts = []string{"a process that listens on port " + strings.Join(parts, " or ")}
	}
	if r.Executable != "" {
		parts = append(parts, "executable "+r.Executable)
	}
	if r.Cgroup != "" {
		parts = append(parts, "cgroup "+r.Cgroup)
	}
	if r.Namespace != "" {
		parts = append(parts, "namespace "+r.Namespace)
	}
	if r.Workload != "" {
		parts = append(parts, "workload "+r.Workload)
	}
	for _, of := range []struct {
		what   string
		values map[string]string
	}{{"label", r.Labels}, {"annotation", r.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(of.values)) {
			parts = append(parts, of.what+" "+key+"="+of.values[key])
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Rule) empty() bool {
	return len(r.Ports) == 0 && r.Executable == "" && r.Cgroup == "" && !r.WantsCluster()
}

// selector is a short form of a rule: "8080", "shop=8080", "*/nginx", "proxy=*/nginx".
type selector struct{ kind, text string }

// The kinds of selectors name flags and, in the plural, variables.
var selectorKinds = []string{"port", "exe", "cgroup", "namespace"}

func (s selector) rule(where string) (Rule, error) {
	text := s.text
	var r Rule
	// A path may contain "=", but only after a "/" or "*".
	if name, rest, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, "/*?") {
		if name == "" {
			return r, &Error{where, s.text, "a name before the ="}
		}
		r.Name, text = name, rest
	}
	if text == "" {
		return r, &Error{where, s.text, "something to select by"}
	}
	switch s.kind {
	case "port":
		p, err := ParsePorts(where, text)
		if err != nil {
			return r, err
		}
		r.Ports = []PortRange{p}
	case "exe":
		r.Executable = text
	case "cgroup":
		r.Cgroup = text
	case "namespace":
		r.Namespace = text
	}
	return r, nil
}
