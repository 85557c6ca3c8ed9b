package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// known is a store as a kill -9 leaves it, with what it acknowledged.
type known struct {
	dir    string
	traces map[int]string // by number, as text
	spans  int
}

// makeKnown writes, merges and removes, with tables, logs and a manifest of several
// versions, and copies the directory while the store has it open.
func makeKnown(t *testing.T) *known {
	t.Helper()
	from := t.TempDir()
	s := open(t, Options{Dir: from, byHand: true, small: 256 << 10})
	k := &known{dir: t.TempDir(), traces: map[int]string{}}
	n := 0
	put := func(traces int) {
		td := shop(n, traces)
		write(t, s, td)
		n += traces
	}
	for range 12 {
		put(40)
	}
	for range 2 * mergeCount {
		put(1)
	}
	for {
		merged, err := s.mergeOnce()
		if err != nil {
			t.Fatal(err)
		}
		if !merged {
			break
		}
	}
	for range 6 {
		put(30)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	put(50)
	for range 5 {
		put(3)
	}
	for i := range n {
		td, err := s.Trace(context.Background(), traceID(uint64(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		k.traces[i] = text1(t, td)
		k.spans += td.SpanCount()
	}
	copyDir(t, from, k.dir)
	return k
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
}

// harm does something to the files of a store, and says what.
func harm(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*", engineDir + "/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && filepath.Base(name) != "LOCK" {
				files = append(files, name)
			}
		}
	}
	// Kinds of files alike: there are more tables than manifests.
	kinds := []string{".sst", ".log", "MANIFEST-", ledgerFile, ""}
	kind := kinds[r.IntN(len(kinds))]
	var some []string
	for _, f := range files {
		if strings.Contains(filepath.Base(f), kind) {
			some = append(some, f)
		}
	}
	if len(some) == 0 {
		return harm(t, r, dir)
	}
	name := some[r.IntN(len(some))]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Base(name)
	switch what := r.IntN(5); {
	case what <= 1 && len(b) > 0:
		at := r.IntN(len(b))
		if strings.HasSuffix(name, ".log") { // most of it was never used
			at = r.IntN(1 + len(strings.TrimRight(string(b), "\x00")))
		}
		at = min(at, len(b)-1)
		bit := byte(1) << r.IntN(8)
		b[at] ^= bit
		err = os.WriteFile(name, b, 0o600)
		short = fmt.Sprintf("%s: bit %#x of byte %d of %d flipped", short, bit, at, len(b))
	case what == 2 && len(b) > 0:
		to := r.IntN(len(b))
		err = os.Truncate(name, int64(to))
		short = fmt.Sprintf("%s: cut off at %d of %d", short, to, len(b))
	case what == 3 && len(some) > 1:
		other := some[r.IntN(len(some))]
		var c []byte
		if c, err = os.ReadFile(other); err == nil {
			err = errors.Join(os.WriteFile(name, c, 0o600), os.WriteFile(other, b, 0o600))
		}
		short += " and " + filepath.Base(other) + " swapped"
	default:
		err = os.Remove(name)
		short += " removed"
	}
	if err != nil {
		t.Fatal(err)
	}
	return short
}

// faults is how many a test tries; `make store-faults` tries more.
func faults(t *testing.T, few int) int {
	if text := os.Getenv("TARE_STORE_FAULTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return few
}

// Whatever happens to the files of a store: each span that was acknowledged is there, or
// the store says that it is lost or damaged; and what it cannot read, it does not invent.
func TestFaults(t *testing.T) {
	k := makeKnown(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TARE_STORE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	tries := faults(t, 12)
	for i := range tries {
		k.try(t, seed+uint64(i), counts)
	}
	t.Logf("%d faults: %v; the first has the seed %d", tries, counts, seed)
}

func (k *known) try(t *testing.T, seed uint64, counts map[string]int) {
	r := rand.New(rand.NewPCG(seed, 16))
	dir := t.TempDir()
	copyDir(t, k.dir, dir)
	what := fmt.Sprintf("TARE_STORE_SEED=%d: ", seed)
	for range 1 + r.IntN(2) {
		what += harm(t, r, dir) + "; "
	}
	var log strings.Builder
	plain := func(text string) {
		if strings.Contains(text, "corruption detail carrier") {
			t.Errorf("%s says %q", what, text)
		}
	}
	s, err := Open(Options{Dir: dir, byHand: true, small: 256 << 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		plain(err.Error())
		var version *VersionError
		if errors.As(err, &version) {
			counts["refused"]++
			return
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "tare store repair") {
			t.Errorf("%s: %v", what, err)
		}
		counts["repaired"]++
		k.repaired(t, what, dir)
		return
	}
	missing, damaged := k.read(t, s, what)
	d := s.Damage()
	switch {
	case missing == 0 && damaged == 0 && d.RestoredSpans > 0:
		counts["restored"]++
	case missing == 0 && damaged == 0:
		counts["unharmed"]++
	case missing > 0 && d.LostSpans+d.UnreadableSpans < uint64(missing) && len(d.Files)+len(d.Notes) == 0:
		t.Errorf("%s: %d spans are missing, said is %+v", what, missing, d)
	default:
		counts["said"]++
	}
	if missing > 0 && !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%s: %d spans are missing, and the log has no error: %s", what, missing, log.String())
	}
	_ = s.Close() // the engine may find damage while it closes
	plain(log.String())
}

// read compares all traces with what was acknowledged; it returns the spans of traces that
// are not there, and how many traces are said to be damaged.
func (k *known) read(t *testing.T, s *Store, what string) (missing, damaged int) {
	t.Helper()
	for i, want := range k.traces {
		if damaged > 2 { // the engine searches for a flipped bit for a second, each time
			break
		}
		td, err := s.Trace(context.Background(), traceID(uint64(i+1)))
		switch {
		case errors.Is(err, ErrCorrupt):
			damaged++
			if strings.Contains(err.Error(), "corruption detail carrier") {
				t.Errorf("%s: %v", what, err)
			}
		case errors.Is(err, ErrNotFound):
			missing += 10
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case td.SpanCount() < 10:
			missing += 10 - td.SpanCount()
		case text1(t, td) != want:
			t.Errorf("%s: trace %d is another", what, i)
		}
	}
	return missing, damaged
}

// repaired salvages a store that cannot be opened: what is said to be gone and what is there
// are all that there was.
func (k *known) repaired(t *testing.T, what, dir string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	r, err := Repair(t.Context(), dir, to, nil)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	s := open(t, Options{Dir: to, byHand: true})
	missing, damaged := k.read(t, s, what)
	if damaged > 0 || uint64(missing) > r.GoneSpans() && len(r.Files) == 0 {
		t.Errorf("%s: repaired with %+v, %d spans missing, %d traces damaged", what, r, missing, damaged)
	}
}

// One flipped bit in the manifest, after a kill: the engine takes what is behind it for a
// write that a crash interrupted, and would remove the tables that it no longer knows. All
// spans are there nevertheless, wherever the bit is.
func TestFlippedManifest(t *testing.T) {
	k := makeKnown(t)
	engine := filepath.Join(k.dir, engineDir)
	manifests, err := filepath.Glob(filepath.Join(engine, "MANIFEST-*"))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	b, err := os.ReadFile(manifests[0])
	if err != nil {
		t.Fatal(err)
	}
	// In what was written first after the manifest began: the first flush.
	b[len(b)/2] ^= 1
	if err := os.WriteFile(manifests[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	s := open(t, Options{Dir: k.dir, byHand: true, small: 256 << 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if missing, damaged := k.read(t, s, "a bit flipped in the manifest"); missing > 0 || damaged > 0 {
		t.Errorf("%d spans missing, %d traces damaged", missing, damaged)
	}
	d := s.Damage()
	if d.RestoredSpans == 0 || d.LostSpans > 0 || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%+v\n%s", d, log.String())
	}
}

// A store of before there was a ledger gets one.
func TestLedgerBegins(t *testing.T) {
	k := makeKnown(t)
	if err := errors.Join(os.Remove(filepath.Join(k.dir, ledgerFile)),
		os.WriteFile(filepath.Join(k.dir, formatFile), []byte("tare store 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: k.dir, byHand: true})
	if missing, _ := k.read(t, s, "version 1"); missing > 0 || s.Damage().Any() {
		t.Errorf("%d spans missing, %+v", missing, s.Damage())
	}
	a, err := readLedger(k.dir)
	if err != nil || len(a.acked) != len(s.list()) {
		t.Errorf("%d chunks in the ledger, %d in the store, %v", len(a.acked), len(s.list()), err)
	}
	if v, err := checkFormat(k.dir); v != version || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
}

// Opening and closing, and what retention and merging do, is no damage.
func TestSoundStoreIsSound(t *testing.T) {
	k := makeKnown(t)
	for range 2 {
		s := open(t, Options{Dir: k.dir, byHand: true, small: 256 << 10, MaxAge: time.Hour})
		if missing, damaged := k.read(t, s, "sound"); missing+damaged > 0 || s.Damage().Any() {
			t.Errorf("%d spans missing, %+v", missing, s.Damage())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Check(t.Context(), k.dir)
	if err != nil || !r.Sound() || r.Stats.Spans != uint64(k.spans) {
		t.Errorf("%+v, %v", r, err)
	}
	to := filepath.Join(t.TempDir(), "new")
	made, err := Repair(t.Context(), k.dir, to, nil)
	if err != nil || made.Spans != uint64(k.spans) || made.GoneSpans() != 0 || len(made.Files) > 0 {
		t.Errorf("%+v, %v", made, err)
	}
	s := open(t, Options{Dir: k.dir, byHand: true, MaxAge: time.Hour})
	if err := s.expire(t.Context(), timeOf(hour0).Add(1000*time.Hour)); err != nil || s.Stats().Spans > 0 {
		t.Fatal(s.Stats(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Info(k.dir); err != nil || !r.Sound() || r.Stats.Spans > 0 {
		t.Errorf("after retention: %+v, %v", r, err)
	}
	if _, err := Repair(t.Context(), k.dir, to, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("into a directory that is not empty: %v", err)
	}
	if _, err := Check(t.Context(), to+"none"); !errors.Is(err, ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
}

// A damaged block: traces that have it say so, all others are served, and searches say that
// something may be missing.
func TestDamagedBlock(t *testing.T) {
	k := makeKnown(t)
	tables, err := filepath.Glob(filepath.Join(k.dir, engineDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	b, err := os.ReadFile(tables[len(tables)-1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 4
	if err := os.WriteFile(tables[len(tables)-1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), k.dir)
	if err != nil || r.Sound() || len(r.Damage.Files) != 1 || r.Damage.UnreadableSpans == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s, err := Open(Options{Dir: k.dir, byHand: true, small: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // the engine may find the damage again
	sound, said := 0, 0
	for i, want := range k.traces {
		td, err := s.Trace(t.Context(), traceID(uint64(i+1)))
		switch {
		case err == nil && text1(t, td) == want:
			sound++
		case errors.Is(err, ErrCorrupt):
			said++
		default:
			t.Errorf("trace %d: %v", i, err)
		}
		if said > 3 {
			break
		}
	}
	if sound == 0 || said == 0 {
		t.Errorf("%d traces served, %d said to be damaged", sound, said)
	}
	found, err := s.Search(t.Context(), Query{Limit: 1000, Attributes: map[string]string{"http.request.method": "GET"}})
	if err != nil || len(found.Traces) == 0 || found.Damaged == 0 {
		t.Errorf("%d traces, %d damaged, %v", len(found.Traces), found.Damaged, err)
	}
	if _, err := s.Map(t.Context(), time.Time{}, time.Time{}); err != nil {
		t.Error(err)
	}
	if d := s.Damage(); d.UnreadableSpans == 0 || len(d.Files) != 1 {
		t.Errorf("%+v", d)
	}
}

// Only the owner reads what is stored, and a directory into which others could put files is
// refused.
func TestDirectoryOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Dir: dir})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "chmod 0700 "+dir) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: dir, byHand: true, small: 64 << 10})
	for i := range 20 {
		write(t, s, shop(i*50, 50))
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // compacted meanwhile
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
