package profile

import pprof "github.com/google/pprof/profile"

// categoryOf is the category of a stack of function names, the leaf first.
func categoryOf(stack []string) string {
	if len(stack) == 0 {
		return Other
	}
	var (
		api, transport bool
		before         frame  // the one that this one called
		passed         string // the instrumentation that passes a wrapped method on
		owner          string
		root           = frame{pkg: "runtime"}
	)
	for _, function := range stack {
		f := frameOf(function)
		if f.collector {
			return GarbageCollection
		}
		if f.name != "goexit" || f.pkg != "runtime" {
			root = f
		}
		api = api || f.api && owner == ""
		transport = transport || f.transport
		switch {
		case owner != "" || f.category == neutral:
			passed = ""
		case instrumentation(f.category) && (before.wrapped || passed == f.category):
			passed = f.category
		default:
			owner = f.category
		}
		before = f
	}
	switch {
	case api && !tracing(owner):
		return HTTPInstrumentation
	case owner != "":
		return owner
	case transport:
		return SpanPipeline
	case root.pkg == "runtime" || root.pkg == "":
		return Scheduler
	}
	return Other
}

// instrumentation wraps what would have run without it.
func instrumentation(category string) bool {
	return category == HTTPInstrumentation || category == RedisInstrumentation || category == LeanInstrumentation
}

func tracing(category string) bool {
	return category == SpanPipeline || category == LeanPipeline || category == Decisions || instrumentation(category)
}

// stack lists the functions of a sample, inlined ones too, the leaf first.
func stack(s *pprof.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil && line.Function.Name != "" {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}
