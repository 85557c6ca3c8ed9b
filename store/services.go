package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// maxAnswered is how many services, operations or calls an answer has. The others are counted as one
// (OtherServices, OtherOperations): the senders of spans choose how many there are.
const maxAnswered = 10_000

// OtherOperations stands for all operations beyond those that an answer has.
const OtherOperations = "(other operations)"

// Services returns the services that have spans stored, by name.
func (s *Store) Services(ctx context.Context) ([]Service, error) {
	type count struct{ spans, last uint64 }
	all := map[string]*count{}
	err := s.eachOperation(ctx, func(service string, o *operation) {
		c := all[service]
		if c == nil && len(all) >= maxAnswered {
			service = OtherServices
			c = all[service]
		}
		if c == nil {
			c = &count{}
			all[service] = c
		}
		c.spans += uint64(o.spans)
		c.last = max(c.last, o.maxStart)
	})
	if err != nil {
		return nil, err
	}
	list := make([]Service, 0, len(all))
	for name, c := range all {
		list = append(list, Service{Name: name, Spans: c.spans, Last: timeOf(c.last)})
	}
	slices.SortFunc(list, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Operations returns the operations of a service, or of all if it is empty, by
// name and kind.
func (s *Store) Operations(ctx context.Context, service string) ([]Operation, error) {
	type key struct {
		name string
		kind int32
	}
	all := map[key]uint64{}
	err := s.eachOperation(ctx, func(of string, o *operation) {
		if service == "" || of == service {
			k := key{o.name, o.kind}
			if _, ok := all[k]; !ok && len(all) >= maxAnswered {
				k = key{name: OtherOperations}
			}
			all[k] += uint64(o.spans)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]Operation, 0, len(all))
	for k, n := range all {
		list = append(list, Operation{Name: k.name, Kind: k.kind, Spans: n})
	}
	slices.SortFunc(list, func(a, b Operation) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return list, nil
}

// eachOperation calls f for the operations of every chunk.
func (s *Store) eachOperation(ctx context.Context, f func(service string, o *operation)) error {
	return s.read(ctx, func(v *view) error { return v.eachOperation(ctx, f) })
}

func (v *view) eachOperation(ctx context.Context, f func(service string, o *operation)) error {
	for _, z := range v.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.skip(z, v.operationsOf(z, f)); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) operationsOf(z *zone, f func(service string, o *operation)) error {
	c, err := v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	n, err := c.dictionary()
	if err != nil {
		return err
	}
	for i := range n.operations {
		o := &n.operations[i]
		if o.spans == 0 { // none is seen
			continue
		}
		f(n.services[o.service], o)
	}
	return v.drop(c)
}
