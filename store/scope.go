package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/otel/wire"
)

// Scope is what a reader may see: the spans and log records of some services. What it does not allow is for
// the reader as if it had never been stored, but for how many spans of a trace are left out
// ([Found.Hidden]), and for calls of its own services to others (OtherServices).
//
// A pattern is a name in which * stands for any text, \* for a star and \\ for a backslash.
type Scope struct {
	Services     []string // patterns of service.name, of which one must match; none: nothing may be seen
	Namespaces   []string // patterns of service.namespace; none: any, or that there is none
	Environments []string // patterns of deployment.environment.name, or deployment.environment; none: any
}

// OtherServices stands in [Map] for all callees that the reader may not see, and in every answer for all services beyond
// those that it has.
const OtherServices = "(other services)"

// Validate reports patterns that can match nothing.
func (s *Scope) Validate() error {
	if len(s.Services) == 0 {
		return errors.New(`no services: list the names of those that may be seen, or "*" for all`)
	}
	for _, list := range [...][]string{s.Services, s.Namespaces, s.Environments} {
		if slices.Contains(list, "") {
			return fmt.Errorf("an empty name among %q: remove it", strings.Join(list, ", "))
		}
	}
	return nil
}

type scoped struct{}

// WithScope returns a context whose queries see only what the scope allows, in every method of a Store that
// takes a context and reads spans or log records.
func WithScope(ctx context.Context, s *Scope) context.Context {
	return context.WithValue(ctx, scoped{}, s)
}

// ScopeOf returns the scope of a context; nil: everything may be seen.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scoped{}).(*Scope)
	return s
}

// Service reports whether spans of a service with this name may be seen, if the scope allows their namespace and
// environment, too.
func (s *Scope) Service(name string) bool { return matchesAny(s.Services, name) }

// Sees reports whether spans of a resource may be seen.
func (s *Scope) Sees(service, namespace, environment string) bool {
	return s.Service(service) &&
		(len(s.Namespaces) == 0 || matchesAny(s.Namespaces, namespace)) &&
		(len(s.Environments) == 0 || matchesAny(s.Environments, environment))
}

// byResource reports whether the name of a service is not enough to decide.
func (s *Scope) byResource() bool { return len(s.Namespaces)+len(s.Environments) > 0 }

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(pattern(p), name) })
}

// identity is what of a resource a scope asks for.
type identity struct{ service, namespace, environment string }

// identityOf reads the attributes of a ResourceSpans without scopes.
func identityOf(resource []byte) (id identity, err error) {
	id.service = UnknownService
	older := ""
	err = eachAlong(resource, func(kv []byte) error {
		key, value, err := keyValue(kv)
		if err != nil {
			return err
		}
		switch string(key) {
		case "service.name":
			if s := nameValue(value); s != "" {
				id.service = s
			}
		case "service.namespace":
			id.namespace = nameValue(value)
		case "deployment.environment.name":
			id.environment = nameValue(value)
		case "deployment.environment":
			older = nameValue(value)
		}
		return nil
	}, wire.ResourceSpansResource, wire.ResourceAttribute)
	if id.environment == "" {
		id.environment = older
	}
	return id, err
}
