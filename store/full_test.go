package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tmpfs mounts a small file system.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("mounting a tmpfs:", err)
		}
		t.Skip("needs root to mount a tmpfs:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A full disk is said and counted, nothing of the refused write shows, and
// writing goes on when there is room again.
func TestFullDisk(t *testing.T) {
	dir := tmpfs(t, "200m")
	s := open(t, Options{Dir: filepath.Join(dir, "store"), NoSync: true})
	n, accepted := 0, 0
	var err error
	for ; n < 2000; n++ {
		if err = s.Write(context.Background(), shop(n*500, 500)); err != nil {
			break
		}
		accepted++
	}
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "MiB") || accepted == 0 {
		t.Fatalf("after %d writes: %v", accepted, err)
	}
	if _, err := s.Trace(context.Background(), traceID(uint64(n*500+1))); !errors.Is(err, ErrNotFound) {
		t.Errorf("of the refused write: %v", err)
	}
	if st := s.Stats(); st.Refused != 5000 || st.Spans != uint64(accepted)*5000 || st.Written != st.Spans {
		t.Errorf("%+v", st)
	}
	// Somebody else fills what is left: reading goes on.
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Search(context.Background(), Query{Status: Failed}); err != nil || len(r.Traces) != 20 {
		t.Errorf("%d traces, %v", len(r.Traces), err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// Removing what is stored makes room.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.opt.MaxAge = time.Hour // all is older
	s = open(t, s.opt)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err = s.Write(context.Background(), shop(n*500, 1))
		if st := s.Stats(); err == nil && st.Expired >= uint64(accepted)*5000 {
			break
		} else if err != nil && !errors.Is(err, ErrFull) || time.Now().After(deadline) {
			t.Fatalf("%+v %v", st, err)
		}
	}
}

func TestNoRoomAtAll(t *testing.T) {
	if _, err := Open(Options{Dir: filepath.Join(tmpfs(t, "8m"), "store")}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}
