package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/bpf"
)

// The control groups of two agents overlap if one is the other, or below it, or the root.
func TestOverlap(t *testing.T) {
	agent := func(cgroup uint64, above ...uint64) *bpf.HostClaim {
		v := &bpf.HostClaim{Cgroup: cgroup}
		copy(v.Above[:], above)
		return v
	}
	node1, node2 := agent(20, 1, 10, 20, 30), agent(21, 1, 10, 21) // two nodes of kind, each a container
	for _, tt := range []struct {
		name string
		a, b *bpf.HostClaim
		want bool
	}{
		{"the whole host, twice", agent(1, 1, 10), agent(1, 1, 11), true},
		{"the same container", node1, agent(20, 1, 10, 20, 31), true},
		{"two containers", node1, node2, false},
		{"a container and the host", node1, agent(1, 1, 9), true},
		{"a container and what it is in", node1, agent(10, 1, 10), true},
		{"what the agent is in is below what it traces", node1, agent(30, 1, 10, 20, 30), true},
		{"nothing is known of one", agent(20), node2, false},
	} {
		if overlap(tt.a, tt.b) != tt.want || overlap(tt.b, tt.a) != tt.want {
			t.Errorf("%s: not %v", tt.name, tt.want)
		}
	}
}

func options(t *testing.T, cgroup string) Options {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to load kernel programs")
	}
	return Options{Instance: fmt.Sprintf("test-%d", os.Getpid()), Cgroup: cgroup, Replaceable: true}
}

func take(t *testing.T, o Options, replace bool) (*Claim, *Other, error) {
	t.Helper()
	c, before, err := Take(t.Context(), o, replace)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, before, err
}

func TestTake(t *testing.T) {
	o := options(t, "/")
	first, before, err := take(t, o, false)
	if err != nil || before != nil {
		t.Fatal(before, err)
	}
	_, _, err = take(t, o, false)
	if want := fmt.Sprintf("process %d", os.Getpid()); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
		t.Errorf("a second claim: %v; want an error that names %s", err, want)
	}
	other := o
	other.Instance += "-other"
	if _, _, err := take(t, other, false); err != nil {
		t.Errorf("another instance: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	unreplaceable := o
	unreplaceable.Replaceable = false
	held, _, err := take(t, unreplaceable, false)
	if err != nil {
		t.Fatalf("the first has ended: %v", err)
	}
	if _, _, err := take(t, o, true); !errors.Is(err, ErrHeld) {
		t.Errorf("taken over from one that allows it to nobody: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}

// Of many that begin at once, one has the host.
func TestTakeAtOnce(t *testing.T) {
	o := options(t, "/")
	const n = 8
	held := make(chan bool, n)
	for range n {
		go func() {
			c, _, err := Take(context.WithoutCancel(t.Context()), o, false)
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			held <- err == nil
		}()
	}
	had := 0
	for range n {
		if <-held {
			had++
		}
	}
	if had != 1 {
		t.Errorf("%d of %d have the host", had, n)
	}
}

// Every moment is one agent's turn: the one's ends where the other's begins.
func TestTakeOver(t *testing.T) {
	o := options(t, "/")
	first, _, err := take(t, o, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Begin(true); err != nil {
		t.Fatal(err)
	}
	heir, before, err := take(t, o, true)
	if err != nil || before == nil {
		t.Fatal(before, err)
	}
	if by, _, gone, err := first.Succeeded(); by != nil || gone || err != nil {
		t.Errorf("before it begins: %v %v %v", by, gone, err)
	}
	if err := heir.TakeOver(t.Context(), before, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	a, errA := first.own.read()
	b, errB := heir.own.read()
	if errA != nil || errB != nil || a.From != 0 || a.Until != b.From || b.Until != never || b.Holds != 1 {
		t.Errorf("%+v\n%+v\n%v %v", a, b, errA, errB)
	}
	if by, since, gone, err := first.Succeeded(); by == nil || since < 0 || gone || err != nil {
		t.Errorf("afterwards: %v %v %v %v", by, since, gone, err)
	}
	if err := heir.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // the kernel frees it in its own time
		_, _, gone, err := first.Succeeded()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the heir has ended, and is still there: %v", err)
		}
		if gone {
			break
		}
	}
	if a, err := first.own.read(); err != nil || a.Until != never {
		t.Errorf("the first does not go on: %+v %v", a, err)
	}
}
