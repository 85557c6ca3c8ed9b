package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options says where a store is and how long it keeps spans.
type Options struct {
	// Dir is made if it is not there. It must be empty or a store's.
	Dir string
	// NoSync acknowledges writes before they are on the disk: a power cut may
	// lose the last ones, kill -9 does not.
	NoSync bool
	// MaxAge is how long spans are kept, at least a second; 0: no limit. Spans
	// go by the chunk, when the newest of it is that old, and not later than
	// this time after they were written.
	MaxAge time.Duration
	// MaxBytes is how large the directory may become, at least [MinBytes]; 0:
	// no limit. Beyond it the oldest chunks are removed. It is checked once a
	// second: what is written meanwhile comes on top, and so do the files that a
	// compaction is about to replace.
	MaxBytes int64
	// Services are ages, each at least a second and at most MaxAge, beyond which no query shows spans and log
	// records of the services whose name a pattern matches ([Scope]); of several that match, the strictest counts. A
	// span's age counts from its start, and not from later than when it was written. Its bytes are removed from the
	// disk as soon as all spans of its service that stand in the same chunk have expired.
	Services map[string]time.Duration
	// MaxLogBytes bounds the log records beside the traces; 0: 1 GiB. They also take at most
	// an eighth of MaxBytes, and go by MaxAge.
	MaxLogBytes int64
	// Log receives messages about merges, removed chunks and errors of Pebble; nil
	// discards them.
	Log *slog.Logger

	clock  func() time.Time // of tests; nil: time.Now
	byHand bool             // tests merge and expire when they like
	disk   vfs.FS           // of tests; nil: the real one
	small  int              // bytes of the memtable in tests; 0: as it should be
}

// MinBytes is the least that Options.MaxBytes may be.
const MinBytes = 64 << 20

// Validate reports what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no directory", ErrInvalid)
	case o.MaxAge < 0 || o.MaxAge > 0 && o.MaxAge < time.Second:
		return fmt.Errorf("%w: an age of %v: use 0 for no limit, or at least 1s", ErrInvalid, o.MaxAge)
	case o.MaxBytes < 0 || o.MaxBytes > 0 && o.MaxBytes < MinBytes:
		return fmt.Errorf("%w: a size of %d bytes: use 0 for no limit, or at least %d", ErrInvalid, o.MaxBytes, MinBytes)
	case o.MaxLogBytes < 0:
		return fmt.Errorf("%w: %d bytes of log records: use 0 for the default, or more", ErrInvalid, o.MaxLogBytes)
	}
	for p, age := range o.Services {
		switch {
		case p == "":
			return fmt.Errorf("%w: an age of %v for a service without a name", ErrInvalid, age)
		case age < time.Second:
			return fmt.Errorf("%w: an age of %v for services %q: use at least 1s", ErrInvalid, age, p)
		case o.MaxAge > 0 && age > o.MaxAge:
			return fmt.Errorf("%w: an age of %v for services %q, where nothing is kept for longer than %v: use less, or keep all for longer", ErrInvalid, age, p, o.MaxAge)
		}
	}
	return nil
}

// now is the time by which retention goes.
func (s *Store) now() time.Time {
	if s.opt.clock != nil {
		return s.opt.clock()
	}
	return time.Now()
}

// Store is an open directory. Its methods may be called concurrently; Close
// waits for those that run, and later ones return ErrClosed.
type Store struct {
	opt      Options
	log      *slog.Logger
	fs       *roomFS
	memTable int // bytes
	db       *pebble.DB
	searches time.Duration // how long a search may take
	closing  time.Duration // how long Close waits for room

	anySize   bool // tables may be missing, or not as large as the manifest says
	ledger    *ledger
	damage    damage
	shortened shortened
	failures  failures
	format    int  // version of the directory when it was opened
	empty     bool // nothing was in it

	life   sync.RWMutex // held for reading by every method
	closed bool

	mu     sync.RWMutex // never held while something is written: that may take long
	chunks []*zone      // by number
	change *change      // under way; of the upkeep, so there is one at most

	next     atomic.Uint64 // number of the next chunk
	written  atomic.Uint64 // spans
	expired  atomic.Uint64
	refused  atomic.Uint64
	overdue  atomic.Uint64      // spans
	ruled    map[uint64][]ruled // by chunk, of those that were looked at; the upkeep's
	logs     logs
	requests requests
	kick     chan struct{} // there may be something to merge
	stop     context.CancelFunc
	done     chan struct{}
}

// Sizes of the engine, in bytes. The memtable holds what is not yet in a table;
// two of them may be in memory.
const (
	memTableSize  = 32 << 20
	blockCache    = 32 << 20
	searchTime    = 2 * time.Second
	upkeepEvery   = time.Second
	closeTime     = 10 * time.Second // without room on the disk
	tableFileSize = 16 << 20
)

// Open opens the store in a directory, or makes one. The errors to tell apart
// are *VersionError, ErrInUse, ErrInvalid, ErrCorrupt and ErrFull.
func Open(opt Options) (*Store, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	s := &Store{
		opt: opt, log: opt.Log, fs: &roomFS{FS: tables}, memTable: memTableSize, searches: searchTime, closing: closeTime,
		kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.fs.log = s.log
	if opt.small > 0 {
		s.memTable = opt.small
	}
	if opt.disk != nil {
		s.fs.FS = checkedFS{opt.disk}
	}
	if opt.MaxBytes > 0 {
		s.memTable = int(min(memTableSize, opt.MaxBytes/16))
	}
	if err := prepare(opt.Dir); err != nil {
		return nil, err
	}
	engine := filepath.Join(opt.Dir, engineDir)
	lock, err := pebble.LockDirectory(engine, s.fs)
	if err != nil {
		return nil, fmt.Errorf("%w: %s (%w)", ErrInUse, opt.Dir, err)
	}
	if err := s.openLocked(engine, lock); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if opt.byHand {
		close(s.done)
	} else {
		go s.upkeep(ctx)
	}
	return s, nil
}

// openLocked opens the engine and holds what it has against the ledger.
func (s *Store) openLocked(engine string, lock *pebble.Lock) error {
	if err := errors.Join(tighten(s.opt.Dir), s.checkDisk(reserveBase)); err != nil {
		return errors.Join(err, lock.Close())
	}
	a, err := readLedger(s.opt.Dir)
	if err == nil {
		s.format, err = checkFormat(s.opt.Dir)
	}
	if err == nil {
		s.empty, err = setAside(s.opt.Dir)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	if err = s.verifyNames(); err == nil {
		s.db, err = s.openEngine(engine, lock)
	}
	if isCorruption(err) {
		// A damaged log keeps the engine from opening; what is readable of it does not.
		repaired, e := s.repairLogs(engine)
		if err = errors.Join(err, e); repaired && e == nil {
			s.db, err = s.openEngine(engine, lock)
		}
	}
	if isOtherSize(err) && !errors.Is(err, fs.ErrNotExist) {
		// What is readable of the tables is used; reading them shows which they are.
		s.log.Error("store: tables are not as large as they were written", "error", plainCorruption(err))
		s.damage.note("tables are not as large as they were written")
		s.anySize = true
		s.db, err = s.openEngine(engine, lock)
	}
	if err != nil && a.found && !isFull(err) && !errors.Is(err, fs.ErrPermission) {
		// The manifest cannot be used: the engine begins anew, and settle restores what the
		// ledger knows from the files that are set aside.
		s.log.Error("store: the engine's manifest and tables do not fit together, rebuilding the store from what can be read", "error", plainCorruption(err))
		if err = removeEngine(engine); err == nil {
			s.db, err = s.openEngine(engine, lock)
		}
	}
	// Pebble holds the lock from here on, or, if it fails to open, nobody does.
	err = errors.Join(err, lock.Close())
	if err != nil {
		if _, e := quarantine(s.opt.Dir); e != nil {
			err = errors.Join(err, e)
		}
		if isFull(err) || errors.Is(err, fs.ErrPermission) {
			return engineError("opening "+s.opt.Dir, err)
		}
		// Its other reasons not to open are of many kinds.
		return s.hint(corrupt("opening %s: %s", s.opt.Dir, plainCorruption(err)))
	}
	err = s.loadChunks(a)
	if err == nil {
		err = s.settle(a)
	}
	if err == nil {
		err = s.writeRetention()
	}
	if err == nil {
		if err = s.loadLogs(); errors.Is(err, ErrCorrupt) {
			s.log.Error("store: log records are damaged, those that cannot be read are not shown", "error", err)
			err = nil
		}
	}
	if err == nil {
		if err = s.loadRequests(); errors.Is(err, ErrCorrupt) {
			s.log.Error("store: metrics are damaged, those that cannot be read are not shown", "error", err)
			err = nil
		}
	}
	if err != nil {
		err = s.hint(fmt.Errorf("%w (in %s)", err, s.opt.Dir))
		if s.ledger != nil {
			err = errors.Join(err, s.ledger.close())
		}
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// removeEngine removes the engine's files, so that it begins anew. Those that hold spans have second
// names elsewhere.
func removeEngine(engine string) error {
	entries, err := os.ReadDir(engine)
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != "LOCK" {
			err = errors.Join(err, os.Remove(filepath.Join(engine, e.Name())))
		}
	}
	return err
}

// hint adds what to do about a store that cannot be opened.
func (s *Store) hint(err error) error {
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w; nothing was removed: salvage what is readable by `tare store repair %s NEW-DIRECTORY`, or choose another directory", err, s.opt.Dir)
}

func (s *Store) openEngine(dir string, lock *pebble.Lock) (*pebble.DB, error) {
	return pebble.Open(dir, s.engineOptions(lock))
}

func (s *Store) engineOptions(lock *pebble.Lock) *pebble.Options {
	var fs vfs.FS = s.fs
	if s.opt.NoSync {
		fs = noSyncFS{fs}
	}
	o := &pebble.Options{
		FS:   fs,
		Lock: lock,
		// The check refuses to open a store of which one table is not as it was.
		DisableConsistencyCheck: s.anySize,
		// A newer one is chosen together with a new version of the store.
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		CacheSize:                   blockCache,
		MemTableSize:                uint64(s.memTable),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       40,
		LBaseMaxBytes:               256 << 20,
		BytesPerSync:                1 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.NumCPU()/2) },
		Logger:                      engineLog{s.log},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if text := plainCorruption(err); s.failures.new(text) {
					s.log.Error("store: work in the background failed, it will be tried again", "error", text)
				}
			},
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				if s.damage.file(i.Path) {
					s.log.Error("store: a file is damaged", "file", i.Path, "error", plainCorruption(i.Details))
				}
			},
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) { s.log.Warn("store: writes wait for the disk", "reason", i.Reason) },
		},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		// What is worth compressing is compressed already.
		l.Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		l.BlockSize = 32 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
	}
	for i := range o.TargetFileSizes {
		// The same on every level: a table of old chunks only is neither
		// rewritten nor in the way when they are removed.
		o.TargetFileSizes[i] = int64(min(tableFileSize, s.memTable))
	}
	return o
}

// loadChunks reads the bounds of every chunk. Where a table is damaged, it reads those
// that the ledger names one by one, and leaves out what cannot be read.
func (s *Store) loadChunks(a *account) error {
	err := s.scanChunks()
	if err == nil || !errors.Is(err, ErrCorrupt) || !a.found {
		return err
	}
	s.log.Error("store: bounds of chunks are damaged, reading them one by one", "error", err)
	s.chunks = nil
	numbers := slices.Sorted(maps.Keys(a.acked))
	for _, n := range numbers {
		e := a.acked[n]
		b, closer, err := s.db.Get(partKey(n, partZone, 0))
		if errors.Is(err, pebble.ErrNotFound) {
			continue // settle looks whether it should be there
		}
		var z *zone
		if err == nil {
			z, err = parseZone(n, b)
			err = errors.Join(err, closer.Close())
		}
		if err := engineError("reading the chunks", err); errors.Is(err, ErrCorrupt) {
			s.damage.chunk(n, e.spans)
			continue
		} else if err != nil {
			return err
		}
		s.chunks = append(s.chunks, z)
	}
	s.next.Store(a.next)
	return nil
}

func (s *Store) scanChunks() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyChunk}, UpperBound: []byte{keyChunk + 1}})
	if err != nil {
		return engineError("reading the chunks", err)
	}
	last := uint64(0)
	for ok := it.First(); ok; {
		if len(it.Key()) != 14 {
			return errors.Join(corrupt("a key of %d bytes", len(it.Key())), it.Close())
		}
		d := decodeChunkKey(it.Key())
		if it.Key()[9] != partZone {
			return errors.Join(corrupt("chunk %d has no bounds", d), it.Close())
		}
		z, err := parseZone(d, it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		s.chunks = append(s.chunks, z)
		last = d
		_, to := chunkBounds(d)
		ok = it.SeekGE(to)
	}
	s.next.Store(last + 1)
	return engineError("reading the chunks", it.Close()) // Close says what Error would
}

// begin is called first by every method; end must be called if it returns nil.
func (s *Store) begin() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Store) end() { s.life.RUnlock() }

// Close waits for running calls and releases the directory. What was
// acknowledged is kept.
//
// It returns ErrFull if a write of Pebble waits for free disk space for longer
// than ten seconds: then the directory is released when there is space, or when
// the process ends.
func (s *Store) Close() error {
	done := make(chan error, 1)
	go func() { done <- s.close() }()
	tick := time.NewTicker(s.closing / 100)
	defer tick.Stop()
	for full := 0; ; {
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
		if full++; s.fs.waiting.Load() == 0 {
			full = 0
		} else if full > 100 {
			return fmt.Errorf("%w: closing %s: what is still to be written waits for room", ErrFull, s.opt.Dir)
		}
	}
}

func (s *Store) close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stop()
	<-s.done
	return engineError("closing", errors.Join(s.db.Close(), s.ledger.close()))
}

// Stats returns the state of the whole store. Traces counts a trace that came
// in several writes once for each until they are merged.
func (s *Store) Stats() Stats {
	st := Stats{Written: s.written.Load(), Expired: s.expired.Load(), Overdue: s.overdue.Load(), Refused: s.refused.Load(), Version: version}
	if s.begin() != nil {
		return st
	}
	defer s.end()
	var oldest, newest uint64
	for i, z := range s.list() {
		st.Spans += uint64(z.spans)
		st.Traces += uint64(z.traces)
		newest = max(newest, z.maxStart)
		if i == 0 || z.minStart < oldest {
			oldest = z.minStart
		}
	}
	if st.Spans > 0 {
		st.Oldest, st.Newest = timeOf(oldest), timeOf(newest)
	}
	st.Bytes = s.db.Metrics().DiskSpaceUsage()
	return st
}

// list is the chunks as they are now.
func (s *Store) list() []*zone {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.chunks)
}
