package export

import (
	"strings"
	"testing"

	"github.com/tare-trace/tare/span"
)

// drain takes everything as a sender would.
func drain(t *testing.T, q *queue) (batches []int, bytes []int) {
	t.Helper()
	q.close()
	for {
		b, _, done := q.take()
		if done {
			break
		}
		batches = append(batches, len(b.spans))
		bytes = append(bytes, len(b.buf))
		q.settle(b)
	}
	if q.spans != 0 || q.bytes != 0 || q.pushed != q.settled {
		t.Errorf("after draining: %d spans, %d bytes, %d in, %d out", q.spans, q.bytes, q.pushed, q.settled)
	}
	return batches, bytes
}

func testQueue(t *testing.T, cfg Config) *queue {
	t.Helper()
	cfg.Loss = &losses{}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newQueue(cfg)
}

func TestQueueBoundsBytes(t *testing.T) {
	big := testSpan(0, nil)
	big.Name = strings.Repeat("x", 1000)
	q := testQueue(t, Config{MaxQueueBytes: 10_000, MaxBatchBytes: 3_000})
	spans := make([]*span.Span, 50)
	for i := range spans {
		spans[i] = big
	}
	lost, reason := q.push(spans)
	if reason != ReasonQueueFull || lost != 41 {
		t.Errorf("%d lost (%s), want 41", lost, reason)
	}
	if small, _ := q.push(testSpans(1, nil)); small != 0 {
		t.Error("a small span would have fit")
	}
	if q.bytes > 10_000 {
		t.Errorf("%d bytes queued", q.bytes)
	}
	batches, bytes := drain(t, q)
	n := 0
	for i := range batches {
		n += batches[i]
		if bytes[i] > 3_000 {
			t.Errorf("batch of %d bytes", bytes[i])
		}
	}
	if n != 10 {
		t.Errorf("%d spans queued, want 10", n)
	}
}

func TestQueueSendsAHugeSpanAlone(t *testing.T) {
	huge := testSpan(0, nil)
	huge.Name = strings.Repeat("x", 5000)
	q := testQueue(t, Config{MaxQueueBytes: 20_000, MaxBatchBytes: 3_000})
	q.push([]*span.Span{testSpan(1, nil), huge, testSpan(2, nil), testSpan(3, nil)})
	batches, _ := drain(t, q)
	if len(batches) != 3 || batches[0] != 1 || batches[1] != 1 || batches[2] != 2 {
		t.Errorf("batches %v", batches)
	}
	q = testQueue(t, Config{MaxQueueBytes: 1000})
	if lost, _ := q.push([]*span.Span{huge, testSpan(1, nil)}); lost != 1 {
		t.Errorf("%d lost", lost)
	}
	drain(t, q)
}

func TestQueueReusesBatches(t *testing.T) {
	q := testQueue(t, Config{MaxBatch: 10})
	spans := testSpans(10, &span.Resource{})
	cycle := func() {
		q.push(spans)
		b, _, _ := q.take()
		q.settle(b)
	}
	for range 5 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
}
