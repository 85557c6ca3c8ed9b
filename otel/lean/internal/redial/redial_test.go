package redial_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/redial"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

var errAway = errors.New("nobody is there")

// The bubble's clock moves only when everybody waits: times are exact.

func TestAFailureStandsForTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, answer := 0, errAway
		dial := redial.After(time.Second, func(context.Context, string, string) (int, error) { tries++; return 7, answer })
		for range 1000 {
			if _, err := dial(t.Context(), "tcp", "a:1"); !errors.Is(err, errAway) {
				t.Fatalf("error %v", err)
			}
		}
		require.Equal(t, 1, tries, "attempts")
		if _, err := dial(t.Context(), "tcp", "b:1"); !errors.Is(err, errAway) || tries != 2 {
			t.Errorf("another address: %v after %d attempts", err, tries)
		}
		answer = nil
		time.Sleep(time.Second)
		if c, err := dial(t.Context(), "tcp", "b:1"); c != 7 || err != nil || tries != 3 {
			t.Errorf("after the pause: %v, %v after %d attempts", c, err, tries)
		}
		if c, err := dial(t.Context(), "tcp", "b:1"); c != 7 || err != nil || tries != 4 {
			t.Errorf("a success is no reason to wait: %v, %v after %d attempts", c, err, tries)
		}
	})
}

func TestWhatItsOwnContextEndsIsNoFailure(t *testing.T) {
	tries := 0
	dial := redial.After(time.Hour, func(ctx context.Context, _, _ string) (int, error) { tries++; return 0, ctx.Err() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(ended, "tcp", "a:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := dial(t.Context(), "tcp", "a:1"); err != nil || tries != 2 {
		t.Errorf("error %v after %d attempts", err, tries)
	}
}

// A server of names is not asked for each export while the name does not resolve.
func TestNamesAreNotAskedForAgainAndAgain(t *testing.T) {
	var asked atomic.Int64
	d := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		return nil, errAway
	}}}
	dial := redial.After(time.Hour, d.DialContext)
	var first int64
	for i := range 100 {
		if _, err := dial(t.Context(), "tcp", "collector.example.test:4318"); err == nil {
			t.Fatal("it is connected")
		}
		if i == 0 {
			first = asked.Load()
		}
	}
	if n := asked.Load(); first == 0 || n != first {
		t.Errorf("%d questions at first, %d after 100 attempts to connect", first, n)
	}
}

func TestPauseIsShorterThanAnyWaitByDefault(t *testing.T) {
	if least := retry.Default.InitialInterval / 2; redial.Pause >= least { // jitter is half of the interval
		t.Errorf("a pause of %v, where a retry may come after %v", redial.Pause, least)
	}
}
