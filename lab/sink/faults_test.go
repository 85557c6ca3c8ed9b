package sink

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/internal/testkit"
)

func TestStallHoldsAnswers(t *testing.T) {
	s := keeping(t)
	s.Stall(true)
	s.Stall(true) // again changes nothing
	done := make(chan int, 3)
	for range 3 {
		go func() { done <- send(t, s, body(chain(1)...)).StatusCode }()
	}
	testkit.Until(t, 15*time.Second, "three bodies have come", func() bool { return s.counters.load().Bytes == uint64(3*len(body(chain(1)...))) })
	if got := s.counters.load(); got.Requests != 0 || len(done) != 0 {
		t.Errorf("%+v, and %d answers", got, len(done))
	}
	s.Stall(false)
	for range 3 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if tally, err := s.Count(); err != nil || tally.Requests != 3 {
		t.Errorf("%+v, %v", tally, err)
	}
}

func TestStalledClientThatGivesUp(t *testing.T) {
	s := keeping(t)
	s.Stall(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := post(ctx, s)
		done <- err
	}()
	testkit.Until(t, 15*time.Second, "the body has come", func() bool { return s.counters.load().Bytes > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Until(t, 15*time.Second, "it counts as refused", func() bool { return s.counters.load().Refused == 1 })
	s.Stall(false)
	if tally, err := s.Count(); err != nil || tally.Requests != 0 {
		t.Errorf("%+v, %v", tally, err)
	}
}

func TestCloseEndsAStall(t *testing.T) {
	s := open(t, Options{})
	s.Stall(true)
	done := make(chan error)
	go func() {
		_, err := post(t.Context(), s)
		done <- err
	}()
	testkit.Until(t, 15*time.Second, "the body has come", func() bool { return s.counters.load().Bytes > 0 })
	assert.NoError(t, s.Close())
	if err := <-done; err == nil {
		t.Error("an answer from a sink that was closed")
	}
	if got := s.counters.load(); got.Refused != 1 || got.Requests != 0 {
		t.Errorf("%+v", got)
	}
}
