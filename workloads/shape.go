package workloads

import (
	"fmt"
	"strings"

	"github.com/tare-trace/tare/span"
)

// Shape is one span that every request of a chain must produce, with those below
// it: the ground truth that traces are compared with.
type Shape struct {
	Service string
	Kind    span.Kind
	// Prefix of the span's subject (its url.path or db.query.text); the number
	// of the request follows, and nothing else. It also tells the client spans
	// of one service apart.
	Prefix   string
	Children []Shape
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

// WithShape lists the chains that have a shape, sorted by name.
func WithShape() []string {
	var names []string
	for _, name := range sortedKeys(plans) {
		if plans[name].shape != nil {
			names = append(names, name)
		}
	}
	return names
}

// ShapeOf finds the shape of a chain.
func ShapeOf(chain string) (Shape, error) {
	if p := plans[chain]; p.shape != nil {
		return *p.shape, nil
	}
	return Shape{}, fmt.Errorf("no shape of a chain %q: there are %s", chain, strings.Join(WithShape(), ", "))
}
