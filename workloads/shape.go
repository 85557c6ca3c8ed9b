package workloads

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/span"
)

// Shape is one span that every request of a chain must produce, with those below
// it: the ground truth that traces are compared with.
type Shape struct {
	Service string
	Kind    span.Kind
	// Prefix of the span's subject (its url.path, db.query.text or rpc.method); the
	// number of the request follows, and nothing else. It also tells the client
	// spans of one service apart.
	Prefix   string
	Children []Shape
	// Wire: only who looks at the wire reports the span, and no instrumentation
	// within the services.
	Wire bool
}

// Truth is the shape of the trace of each request, by its number.
type Truth func(number uint64) Shape

// Always is the truth of a chain whose requests are all alike.
func (s Shape) Always() Truth { return func(uint64) Shape { return s } }

// Within is what instrumentation within the services reports of it. The spans that
// it does not report are left out: those below them, if it does report them, are
// below the next one above.
func (t Truth) Within() Truth {
	return func(number uint64) Shape {
		all := t(number).within()
		if len(all) != 1 {
			panic(fmt.Sprintf("request %d: no instrumentation is at its entry", number))
		}
		return all[0]
	}
}

// Spans is how many a trace has.
func (s Shape) Spans() int {
	n := 1
	for _, c := range s.Children {
		n += c.Spans()
	}
	return n
}

func (s Shape) within() []Shape {
	var children []Shape
	for _, c := range s.Children {
		children = append(children, c.within()...)
	}
	if s.Wire {
		return children
	}
	s.Children = children
	return []Shape{s}
}

// String names the span in reasons: "shop client GET item:".
func (s Shape) String() string {
	return fmt.Sprintf("%s %s %s", s.Service, s.Kind, s.Prefix)
}

func call(from, prefix string, to Shape) Shape {
	return Shape{Service: from, Kind: span.Client, Prefix: prefix, Children: []Shape{to}}
}

func serve(service, prefix string, calls ...Shape) Shape {
	return Shape{Service: service, Kind: span.Server, Prefix: prefix, Children: calls}
}

// onWire marks a shape and all below it.
func onWire(s Shape) Shape {
	s.Wire = true
	s.Children = slices.Clone(s.Children)
	for i := range s.Children {
		s.Children[i] = onWire(s.Children[i])
	}
	return s
}

// WithShape lists the chains that have a shape, sorted by name.
func WithShape() []string {
	var names []string
	for _, name := range sortedKeys(plans) {
		if plans[name].truth != nil {
			names = append(names, name)
		}
	}
	return names
}

// TruthOf finds the shapes of a chain.
func TruthOf(chain string) (Truth, error) {
	if p, err := find(chain); err == nil && p.truth != nil {
		return p.truth, nil
	}
	return nil, fmt.Errorf("no shape of a chain %q: there are %s", chain, strings.Join(WithShape(), ", "))
}
