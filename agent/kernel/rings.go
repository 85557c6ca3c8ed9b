package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/bpf"
)

// Poll hands every record that is in the event ring, or comes within that time, to handle.
// The bytes are valid during the call only, and must not be written. It returns how many
// records there were.
func (t *Tracer) Poll(wait time.Duration, handle func(raw []byte)) (int, error) {
	n, err := t.events.poll(wait, handle)
	if err != nil {
		return n, fmt.Errorf("read the event ring: %w", err)
	}
	return n, nil
}

// Control hands control records to handle until ctx ends.
func (t *Tracer) Control(ctx context.Context, handle func(bpf.Control)) error {
	var rec ringbuf.Record
	stop := context.AfterFunc(ctx, func() { _ = t.control.Flush() })
	defer stop()
	for ctx.Err() == nil {
		err := t.control.ReadInto(&rec)
		switch {
		case errors.Is(err, ringbuf.ErrFlushed):
			continue
		case errors.Is(err, ringbuf.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read the control ring: %w", err)
		}
		c, err := event.DecodeControl(rec.RawSample)
		if err != nil {
			return err
		}
		handle(c)
	}
	return nil
}
