package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Each flipped bit in a block is found, by the one read of the block, and without a search for it:
// reading a store with many takes about as long as reading a sound one.
func TestCheckedFile(t *testing.T) {
	k := makeKnown(t)
	files, err := filepath.Glob(filepath.Join(k.dir, engineDir, "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	check := func() (bad int, took time.Duration) {
		before := processCPU()
		for _, name := range files {
			err := checkTable(name)
			var block *badBlock
			switch {
			case errors.As(err, &block):
				bad++
				if !pebble.IsCorruptionError(err) {
					t.Errorf("%v is no damage to the engine", err)
				}
			case err != nil:
				t.Error(err)
			}
		}
		return bad, processCPU() - before
	}
	if bad, _ := check(); bad > 0 {
		t.Fatalf("%d of %d sound tables are said to be damaged", bad, len(files))
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/3] ^= 4
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A search takes a quarter of a second at least.
	if bad, took := check(); bad != len(files) || took > time.Duration(len(files))*100*time.Millisecond {
		t.Errorf("%d of %d damaged tables found, in %v of CPU", bad, len(files), took)
	}
}

// A flipped bit in each part of the engine's logs: what can be read is there after opening, and
// reading them takes no search for the bits.
func TestFlippedLogs(t *testing.T) {
	k := makeKnown(t)
	logs, err := filepath.Glob(filepath.Join(k.dir, engineDir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	flipped := 0
	before := processCPU()
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := logBlock / 2; at < len(bytes.TrimRight(b, "\x00")); at += logBlock {
			b[at] ^= 8
			flipped++
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = eachBatch(name, b, func([]byte) error { return nil })
	}
	// A search takes 50 ms and more.
	if took := processCPU() - before; flipped < 4 || took > time.Duration(flipped)*10*time.Millisecond {
		t.Errorf("%v of CPU for %d flipped bits", took, flipped)
	}
	s := open(t, Options{Dir: k.dir, byHand: true, small: 256 << 10})
	missing, damaged := k.read(t, s, "bits flipped in logs")
	if d := s.Damage(); uint64(missing) > d.LostSpans || damaged > 0 {
		t.Errorf("%d spans missing, %d traces damaged, said is %+v", missing, damaged, d)
	}
}
