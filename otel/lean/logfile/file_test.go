package logfile_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

// Files are rotated by size, and all together stay below the bound, to the byte; what is removed is the oldest.
func TestBySize(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spans.jsonl")
	bystander := filepath.Join(dir, "spans.jsonl.notes")
	require.NoError(t, os.WriteFile(bystander, make([]byte, 1<<20), 0o600))
	const total = 5 * 4096
	e := open(t, logfile.Config{Path: path, MaxFileBytes: 4096, MaxTotalBytes: total})
	for i := range 200 {
		mustExport(t, e, span(1, 0, func(s *tracepb.Span) { s.Name = fmt.Sprint(i) }))
		sum := int64(0)
		for _, name := range files(t, dir) {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			if name == filepath.Base(bystander) {
				continue
			}
			if sum += info.Size(); info.Size() > 4096 {
				t.Fatalf("%s has %d bytes", name, info.Size())
			}
		}
		if sum > total {
			t.Fatalf("%d bytes in %v", sum, files(t, dir))
		}
	}
	s := e.Stats()
	if s.Rotated == 0 || s.Removed == 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	var got []record
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, "spans.jsonl.2") {
			got = append(got, lines(t, filepath.Join(dir, name))...)
		}
	}
	got = append(got, lines(t, path)...)
	for i, r := range got { // the newest ones, without a hole
		require.Equal(t, fmt.Sprint(200-len(got)+i), r.Body, "line %d of %d", i, len(got))
	}
}

// A batch larger than a file is written to several; a line that is larger than any is lost and counted.
func TestLargeBatches(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spans.jsonl")
	e := open(t, logfile.Config{Path: path, MaxFileBytes: 4096, MaxTotalBytes: 1 << 20})
	spans := []*tracepb.Span{span(1, 0, func(s *tracepb.Span) { s.Name = strings.Repeat("x", 5000) })}
	for range 50 {
		spans = append(spans, span(2, 0, nil))
	}
	if rejected, err := export(t, e, spans...); rejected != 1 || err != nil {
		t.Error(rejected, err)
	}
	if s := e.Stats(); s.Spans != 50 || s.Lines != 50 || s.Lost != 1 || s.Rotated == 0 {
		t.Errorf("%+v", s)
	}
	if _, err := export(t, e, spans[0]); err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Error(err)
	}
}

// A file's age counts from its first line, also across restarts.
func TestByAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"EventName":"tare.span","ObservedTimestamp":"1700000000000000000"}`+"\n"), 0o644))
	e := open(t, logfile.Config{Path: path})
	mustExport(t, e, span(1, 0, nil))
	mustExport(t, e, span(1, 0, nil))
	if s := e.Stats(); s.Rotated != 1 || len(files(t, filepath.Dir(path))) != 2 {
		t.Errorf("%+v", s)
	}
	young := filepath.Join(t.TempDir(), "spans.jsonl")
	e = open(t, logfile.Config{Path: young, MaxFileAge: time.Nanosecond})
	mustExport(t, e, span(1, 0, nil)) // into an empty file, which is never rotated
	mustExport(t, e, span(1, 0, nil))
	if s := e.Stats(); s.Rotated != 1 {
		t.Errorf("%+v", s)
	}
}

// Another process that writes the file is refused; a file that somebody renamed or removed is made again.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spans.jsonl")
	e := open(t, logfile.Config{Path: path})
	if _, err := logfile.New(logfile.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "is written by another process") {
		t.Error(err)
	}
	mustExport(t, e, span(1, 0, nil))
	require.NoError(t, os.Rename(path, path+".1"))
	mustExport(t, e, span(2, 0, nil))
	require.NoError(t, os.Remove(path))
	mustExport(t, e, span(3, 0, nil))
	for name, want := range map[string]string{path: "0000000000000003", path + ".1": "0000000000000001"} {
		if r := lines(t, name); len(r) != 1 || r[0].SpanID != want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What cannot be written is counted, and the next batch is tried again.
func TestAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "spans.jsonl")
	require.NoError(t, os.Mkdir(dir, 0o700))
	e := open(t, logfile.Config{Path: path})
	require.NoError(t, os.RemoveAll(dir))
	if _, err := export(t, e, span(1, 0, nil), span(2, 0, nil)); err == nil {
		t.Error("written to a directory that is gone")
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	mustExport(t, e, span(3, 0, nil))
	if s := e.Stats(); s.Lost != 2 || s.Spans != 1 || len(lines(t, path)) != 1 {
		t.Errorf("%+v", s)
	}
}

// What a crash has left of a line ends before the next one.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"EventName":"tare.sp`), 0o600))
	e := open(t, logfile.Config{Path: path, Sync: true})
	mustExport(t, e, span(1, 0, nil))
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(string(b), "\n") != 2 || !strings.HasPrefix(string(b), `{"EventName":"tare.sp`+"\n{") {
		t.Errorf("%q, %v", b, err)
	}
}

// A disk that is full in the middle of a write leaves no part of a line. The limit of a process stands
// for the disk, in a process of its own.
func TestFull(t *testing.T) {
	if path := os.Getenv("TARE_LOGFILE_FULL"); path != "" {
		writeFull(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	cmd := exec.Command(os.Args[0], "-test.run=^TestFull$", "-test.v")
	cmd.Env = append(os.Environ(), "TARE_LOGFILE_FULL="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := lines(t, path); len(r) != 2 || r[0].SpanID == r[1].SpanID {
		t.Errorf("%+v", r)
	}
}

func writeFull(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ)
	e := open(t, logfile.Config{Path: path})
	mustExport(t, e, span(1, 0, nil))
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = 1000 // a line has about 400 bytes
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	rejected, err := export(t, e, span(2, 0, nil), span(3, 0, nil), span(4, 0, nil))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	if err == nil || rejected != 0 {
		t.Fatal("written to a full disk", rejected)
	}
	mustExport(t, e, span(5, 0, nil))
	if s := e.Stats(); s.Lost != 3 || s.Spans != 2 {
		t.Fatalf("%+v", s)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	for want, c := range map[string]logfile.Config{
		"no path":                {},
		"not a regular file":     {Path: dir},
		"no such file":           {Path: dir + "/none/spans"},
		"at most 10 bytes":       {Path: dir + "/a", MaxFileBytes: 10},
		"at least twice as many": {Path: dir + "/a", MaxFileBytes: 8192, MaxTotalBytes: 8192},
	} {
		if e, err := logfile.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
			if e != nil {
				_ = e.Shutdown(context.Background())
			}
		}
	}
}
