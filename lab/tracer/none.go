package tracer

import (
	"context"
	"errors"

	"github.com/tare-trace/tare/lab/experiment"
)

// none is the baseline: nothing is switched on. It still reads back what the
// service says, since a service that traces by itself is no baseline.
type none struct{}

func (none) Facts(*experiment.Tracer) Facts   { return Facts{Baseline: true} }
func (none) Check(t *experiment.Tracer) error { return errors.Join(noAgent(t), noSampler(t)) }

func (none) Available(context.Context, *experiment.Tracer, *Host) error { return nil }

func (none) Start(_ context.Context, t Target) (Session, error) { return newService(t), nil }
