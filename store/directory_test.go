package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAnotherVersionIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"newer":          {"FORMAT", "tare store 3\n", "a store of version 3, this program reads and writes version 2"},
		"older":          {"FORMAT", "tare store 0\n", "a store of version 0"},
		"another's":      {"FORMAT", "something", `a file FORMAT that says "something"`},
		"somebody's dir": {"letter.txt", "dear", "something else (letter.txt, and no FORMAT)"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Dir: dir})
		var version *VersionError
		if !errors.As(err, &version) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		entries, _ := os.ReadDir(dir)
		if len(entries) != 1 {
			t.Errorf("%s: the directory was changed: %v", name, entries)
		}
	}
}

// Killed between making the directory and saying its version.
func TestBeganToBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "FORMAT.new"), []byte("tare st"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, open(t, Options{Dir: dir}), shop(0, 1))
}

func TestSecondOpener(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

func TestClosed(t *testing.T) {
	s := open(t, Options{})
	write(t, s, shop(0, 1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	var errs [7]error
	errs[0] = s.Write(ctx, shop(0, 1))
	_, errs[1] = s.Trace(ctx, traceID(1))
	_, errs[2] = s.Search(ctx, Query{})
	_, errs[3] = s.Services(ctx)
	_, errs[4] = s.Operations(ctx, "")
	_, errs[5] = s.Latencies(ctx, time.Time{}, time.Time{}, "", false)
	_, errs[6] = s.Map(ctx, time.Time{}, time.Time{})
	for i, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if st := s.Stats(); st.Written != 10 || st.Refused != 10 {
		t.Errorf("%+v", st)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Dir: "x", MaxAge: -1}, {Dir: "x", MaxAge: 5}, {Dir: "x", MaxBytes: 5}, {Dir: "x", MaxBytes: -5}} {
		if _, err := Open(o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A flipped bit anywhere in a table is said to be one, by Open or by whoever
// reads it; nothing wrong is answered.
func TestCorruptFiles(t *testing.T) {
	made := t.TempDir()
	s := open(t, Options{Dir: made, byHand: true})
	write(t, s, shop(0, 40))
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	want, err := s.Trace(context.Background(), traceID(7))
	if err != nil {
		t.Fatal(err)
	}
	wantText := text1(t, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(made, engineDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	const flips = 6
	for i := range flips {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
		broken := append([]byte(nil), table...)
		broken[(2*i+1)*len(table)/(2*flips+2)] ^= 0x10
		if err := os.WriteFile(filepath.Join(dir, engineDir, filepath.Base(tables[0])), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if readBroken(t, dir, wantText) {
			said++
		}
	}
	if said < flips/2 {
		t.Errorf("%d of %d flipped bits were noticed", said, flips)
	}
}

// readBroken reads whatever there is and reports whether an error was said.
func readBroken(t *testing.T, dir, want string) bool {
	t.Helper()
	ctx := context.Background()
	s, err := Open(Options{Dir: dir, byHand: true})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("opening: %v", err)
		}
		return true
	}
	said := false
	check := func(err error) {
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("reading: %v", err)
		}
		said = said || err != nil
	}
	for i := range 40 {
		if said {
			break // the engine looks for the bit for a second, every time
		}
		td, err := s.Trace(ctx, traceID(uint64(i+1)))
		if err == nil && i == 6 && text1(t, td) != want {
			t.Error("a wrong trace")
		}
		check(err)
	}
	if !said {
		_, err = s.Search(ctx, Query{Attributes: map[string]string{"url.path": "/item/1"}, Status: Failed})
		check(err)
		_, err = s.Map(ctx, time.Time{}, time.Time{})
		check(err)
	}
	// The engine may say it again, while it closes.
	_ = s.Close()
	return said
}
