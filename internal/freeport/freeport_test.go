package freeport

import "testing"

// What was given is not given again, though nobody listens there yet.
func TestGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		p, err := On("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if seen[p] || p < firstPort || p >= lastPort {
			t.Errorf("port %d", p)
		}
		seen[p] = true
	}
	for p := range seen {
		if again, err := Where("127.0.0.1", func(port int) bool { return port != p }); err == nil {
			t.Errorf("port %d was given twice", again)
		}
		break
	}
}

func TestNoSuchAddress(t *testing.T) {
	if p, err := On("240.0.0.1"); err == nil {
		t.Errorf("port %d of an address that no machine has", p)
	}
}
