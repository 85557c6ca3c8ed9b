// Package fidelity holds the traces of a run against the ground truth: every
// request carries a number that each service of the chain repeats in its own
// messages, so every span names its request in bytes that no tracer invented.
//
// It refuses to be generous. A trace is complete only if it has each span that
// the chain must produce, once, under the parent that it must have, named, and
// of one request; whatever else it is, is said.
package fidelity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-trace/tare/span"
)

// Shape is one span that a chain must produce, with those below it.
type Shape struct {
	Service string
	Kind    span.Kind
	// Prefix of the span's subject (its url.path or db.query.text); a number
	// follows, and nothing else. It also tells the client spans of one
	// service apart.
	Prefix   string
	Children []Shape
}

// String names the span in reasons: "shop client GET item:".
func (s Shape) String() string {
	return fmt.Sprintf("%s %s %s", s.Service, s.Kind, s.Prefix)
}

// Size is the number of spans of a complete trace.
func (s Shape) Size() int {
	n := 1
	for _, c := range s.Children {
		n += c.Size()
	}
	return n
}

func call(from, prefix string, to Shape) Shape {
	return Shape{Service: from, Kind: span.Client, Prefix: prefix, Children: []Shape{to}}
}

func serve(service, prefix string, calls ...Shape) Shape {
	return Shape{Service: service, Kind: span.Server, Prefix: prefix, Children: calls}
}

// shapes of the chains in package workloads, by their names.
var shapes = map[string]Shape{
	"nginx": serve("proxy", "/n/",
		call("proxy", "/n/", serve("backend", "/n/"))),
	"shop": serve("proxy", "/item/",
		call("proxy", "/item/", serve("shop", "/item/",
			call("shop", "GET item:", serve("redis", "GET item:")),
			call("shop", "get item:", serve("memcached", "get item:")),
			call("shop", "/stock/", serve("stock", "/stock/"))))),
}

// Chains that have a shape, sorted by name.
func Chains() []string { return slices.Sorted(maps.Keys(shapes)) }

// ShapeOf finds the shape of a chain of package workloads.
func ShapeOf(chain string) (Shape, error) {
	s, ok := shapes[chain]
	if !ok {
		return Shape{}, fmt.Errorf("no shape of a chain %q: there are %s", chain, strings.Join(Chains(), ", "))
	}
	return s, nil
}
