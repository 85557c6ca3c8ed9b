package keepprocessor

import (
	"errors"
	"fmt"
	"time"

	"github.com/tare-trace/tare/otel/rule"
)

// limits are the absolute durations above which a root is slow.
type limits struct {
	general    time.Duration
	operations []limit
}

type limit struct {
	service, name *rule.Pattern // nil: any
	slowerThan    time.Duration
}

func compileOperations(operations []Operation) ([]limit, error) {
	out := make([]limit, len(operations))
	var errs []error
	for i := range operations {
		o := &operations[i]
		bad := func(err error) { errs = append(errs, fmt.Errorf("slow: operation %d: %w", i+1, err)) }
		if o.Service == "" && o.Name == "" {
			bad(errors.New("has neither service nor name; give one, or set slower_than for all"))
		}
		if o.SlowerThan < 0 {
			bad(fmt.Errorf("slower_than is %v; use a positive duration, or 0 for no limit", o.SlowerThan))
		}
		out[i].slowerThan = o.SlowerThan
		var err error
		if out[i].service, err = optional(o.Service); err != nil {
			bad(fmt.Errorf("service: %w", err))
		}
		if out[i].name, err = optional(o.Name); err != nil {
			bad(fmt.Errorf("name: %w", err))
		}
	}
	return out, errors.Join(errs...)
}

func (l *limits) exceeded(service, name string, d time.Duration) bool {
	most := l.general
	for i := range l.operations {
		o := &l.operations[i]
		if (o.service == nil || o.service.Match(service)) && (o.name == nil || o.name.Match(name)) {
			most = o.slowerThan
			break
		}
	}
	return most > 0 && d > most
}
