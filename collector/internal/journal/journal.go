// Package journal keeps spans on disk while they wait in memory, so that a collector that is
// killed can read them again. It is a directory of segments, files to which requests are
// appended; a segment is removed as a whole when nothing of it waits any more, which is said
// by whoever holds the spans.
//
// A request that was appended survives the end of the process, and with Options.Sync a crash
// of the machine. It may be read again though it had been passed on: whoever reads it looks
// for doubles.
package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Options of a journal.
type Options struct {
	Dir  string
	Sync bool // each request is on the disk when Append returns
	// MaxBytes is how large all segments may become together; 0: as large as the disk. Append returns ErrFull beyond.
	MaxBytes int64
	// SegmentBytes and SegmentAge are when a segment is complete.
	SegmentBytes int64
	SegmentAge   time.Duration
}

const (
	suffix      = ".spans"
	frameHeader = 8
	maxFrame    = 1 << 30
	// attempts is how often a segment is read again. If the process ended each time, its
	// content may be why.
	attempts = 3
)

// Journal is an open directory. It is safe for concurrent use.
type Journal struct {
	opt Options

	mu      sync.Mutex
	next    uint64
	now     *segment
	old     []*segment // complete ones, and those of an earlier process
	written uint64     // requests, since it was opened
	bytes   int64      // of all segments

	syncMu sync.Mutex // held while one syncs for all that wait
	synced uint64
}

// segment is a file of requests.
type segment struct {
	path    string
	file    *os.File // nil: complete
	size    int64
	began   time.Time
	pending int       // requests that are being added, or the reading of an old segment
	last    time.Time // when the last of its requests was added
}

// Ticket is a request that was appended. Done must be called once, when its spans have been
// passed on or are held by whoever says what waits.
type Ticket struct {
	j *Journal
	s *segment
}

// Open makes the directory, and finds the segments that an earlier process left.
func Open(o Options) (*Journal, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 32 << 20
	}
	if o.SegmentAge == 0 {
		o.SegmentAge = 5 * time.Second
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{opt: o, next: 1}
	for _, e := range entries {
		number, _, ok := strings.Cut(e.Name(), ".")
		n, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil {
			continue
		}
		j.next = max(j.next, n+1)
		info, err := e.Info()
		if err != nil || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		j.old = append(j.old, &segment{path: filepath.Join(o.Dir, e.Name()), size: info.Size(), pending: 1})
		j.bytes += info.Size()
	}
	slices.SortFunc(j.old, func(a, b *segment) int { return cmp.Compare(a.path, b.path) })
	return j, nil
}

// ErrFull is of an Append that a later one may succeed: what waits has to be passed on first.
var ErrFull = errors.New("the journal is full: send the spans again later")

// Append writes the spans of a request. td is not changed.
func (j *Journal) Append(td ptrace.Traces) (Ticket, error) {
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return Ticket{}, fmt.Errorf("journal: %w", err)
	}
	frame := make([]byte, frameHeader, frameHeader+s2.MaxEncodedLen(len(b)))
	frame = append(frame, s2.Encode(nil, b)...)
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHeader))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[frameHeader:], castagnoli))

	j.mu.Lock()
	if j.opt.MaxBytes > 0 && j.bytes+int64(len(frame)) > j.opt.MaxBytes {
		j.mu.Unlock()
		return Ticket{}, ErrFull
	}
	s, err := j.segment()
	if err == nil {
		if _, err = s.file.WriteAt(frame, s.size); err != nil {
			err = errors.Join(err, s.file.Truncate(s.size)) // a part of it, on a full disk
		}
	}
	if err != nil {
		j.mu.Unlock()
		return Ticket{}, fmt.Errorf("journal: %w", err)
	}
	s.size += int64(len(frame))
	j.bytes += int64(len(frame))
	s.pending++
	j.written++
	number := j.written
	j.mu.Unlock()
	t := Ticket{j, s}
	if j.opt.Sync {
		if err := j.sync(number); err != nil {
			t.Done(time.Now())
			return Ticket{}, err
		}
	}
	return t, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is the one to append to. j.mu is held.
func (j *Journal) segment() (*segment, error) {
	now := time.Now()
	if j.now != nil && (j.now.size >= j.opt.SegmentBytes || now.Sub(j.now.began) >= j.opt.SegmentAge) {
		if err := j.complete(); err != nil {
			return nil, err
		}
	}
	if j.now != nil {
		return j.now, nil
	}
	path := filepath.Join(j.opt.Dir, fmt.Sprintf("%012d%s", j.next, suffix))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if j.opt.Sync {
		if err := syncDir(j.opt.Dir); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	j.next++
	j.now = &segment{path: path, file: f, began: now}
	return j.now, nil
}

// complete ends the segment that is appended to. j.mu is held.
func (j *Journal) complete() error {
	s := j.now
	if j.opt.Sync {
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	err := s.file.Close()
	s.file = nil
	j.old, j.now = append(j.old, s), nil
	return err
}

// sync returns when the request with the number is on the disk. Whoever comes first syncs for
// all that have written meanwhile.
func (j *Journal) sync(number uint64) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	if j.synced >= number {
		return nil
	}
	j.mu.Lock()
	written, s := j.written, j.now
	var f *os.File
	if s != nil {
		f = s.file
		s.pending++ // so that it is neither completed nor removed
	}
	j.mu.Unlock()
	if f == nil { // completed, and synced by that
		j.synced = written
		return nil
	}
	err := f.Sync()
	j.mu.Lock()
	s.pending--
	j.mu.Unlock()
	if err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("journal: %w", err)
	}
	j.synced = written
	return nil
}

// Done says that the request's spans were added, at the time, to what waits.
func (t Ticket) Done(at time.Time) {
	t.j.mu.Lock()
	defer t.j.mu.Unlock()
	t.s.pending--
	if at.After(t.s.last) {
		t.s.last = at
	}
}

// Bytes is the size of all segments.
func (j *Journal) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes
}

// Segments is a set of segments of which nothing waits.
type Segments []*segment

// Free returns the complete segments of which everything was added before the time, or, if
// nothing waits, all complete ones.
func (j *Journal) Free(oldest time.Time, waits bool) Segments {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != nil && time.Since(j.now.began) >= j.opt.SegmentAge {
		if err := j.complete(); err != nil {
			return nil // the next Append says it
		}
	}
	var free Segments
	for _, s := range j.old {
		if s.pending == 0 && (!waits || s.last.Before(oldest)) {
			free = append(free, s)
		}
	}
	return free
}

// Remove removes segments.
func (j *Journal) Remove(list Segments) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var err error
	for _, s := range list {
		if i := slices.Index(j.old, s); i >= 0 {
			j.old = slices.Delete(j.old, i, i+1)
			j.bytes -= s.size
			if e := os.Remove(s.path); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// Read is called once, after Open, and calls f for each request that an earlier process left.
// Its segments can be removed when it has returned and nothing of them waits. The errors are
// of what cannot be read; Read goes on with the next segment.
func (j *Journal) Read(f func(ptrace.Traces) error) error {
	j.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(j.old), func(s *segment) bool { return s.pending == 0 })
	j.mu.Unlock()
	var all error
	for _, s := range left {
		err := j.attempt(s)
		if err == nil {
			err = readSegment(s.path, f)
		}
		if errors.Is(err, ErrStop) {
			return errors.Join(all, err, j.unattempt(s))
		}
		all = errors.Join(all, err)
		Ticket{j, s}.Done(time.Now())
	}
	return all
}

// ErrStop ends Read; what was not read stays for the next time.
var ErrStop = errors.New("journal: stopped")

// attempt counts in the segment's name how often it was read.
func (j *Journal) attempt(s *segment) error {
	base := strings.TrimSuffix(filepath.Base(s.path), suffix)
	number, tried, _ := strings.Cut(base, ".")
	n, _ := strconv.Atoi(tried)
	to := filepath.Join(j.opt.Dir, fmt.Sprintf("%s.%d%s", number, n+1, suffix))
	aside := n >= attempts
	if aside {
		to = filepath.Join(j.opt.Dir, number+".failed")
	}
	if err := os.Rename(s.path, to); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.mu.Lock()
	s.path = to
	if aside {
		j.old = slices.DeleteFunc(j.old, func(o *segment) bool { return o == s })
		j.bytes -= s.size
	}
	j.mu.Unlock()
	if aside {
		return fmt.Errorf("journal: the process ended %d times while it read %s, which is not read again", n, to)
	}
	return nil
}

// unattempt takes back that a segment was read again: reading was stopped, and did not end the
// process.
func (j *Journal) unattempt(s *segment) error {
	number, _, _ := strings.Cut(filepath.Base(s.path), ".")
	to := filepath.Join(j.opt.Dir, number+suffix)
	if err := os.Rename(s.path, to); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.mu.Lock()
	s.path = to
	j.mu.Unlock()
	return nil
}

func readSegment(path string, f func(ptrace.Traces) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	r := bytes.NewReader(b)
	for {
		var head [frameHeader]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil // a request that was being written, and not acknowledged
		}
		n := int64(binary.LittleEndian.Uint32(head[:]))
		if n == 0 || n > int64(r.Len()) { // as a crash of the machine leaves it
			return nil
		}
		frame := make([]byte, n)
		_, _ = io.ReadFull(r, frame) // of what is in memory
		td, err := parse(frame, binary.LittleEndian.Uint32(head[4:]))
		if err != nil {
			return fmt.Errorf("journal: %s is damaged %d bytes before its end: %w", path, int64(r.Len())+n+frameHeader, err)
		}
		if err := f(td); err != nil {
			return err
		}
	}
}

func parse(frame []byte, sum uint32) (ptrace.Traces, error) {
	if crc32.Checksum(frame, castagnoli) != sum {
		return ptrace.Traces{}, errors.New("checksum")
	}
	if n, err := s2.DecodedLen(frame); err != nil || n > maxFrame {
		return ptrace.Traces{}, fmt.Errorf("a request of %d bytes", n)
	}
	b, err := s2.Decode(nil, frame)
	if err != nil {
		return ptrace.Traces{}, err
	}
	return (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
}

// Close ends the segment that is appended to. What was not removed is read the next time.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now == nil {
		return nil
	}
	return j.complete()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
