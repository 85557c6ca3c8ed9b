package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Log receives messages about merges, removed chunks and errors of Pebble; nil
	// discards them.
	Log *slog.Logger

	byHand bool   // tests merge and expire when they like
	disk   vfs.FS // of tests; nil: the real one
	small  int    // bytes of the memtable in tests; 0: as it should be
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
	}
	return nil
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

	life   sync.RWMutex // held for reading by every method
	closed bool

	mu     sync.RWMutex // never held while something is written: that may take long
	chunks []*zone      // by number
	change *change      // under way; of the upkeep, so there is one at most

	next    atomic.Uint64 // number of the next chunk
	written atomic.Uint64 // spans
	expired atomic.Uint64
	refused atomic.Uint64
	kick    chan struct{} // there may be something to merge
	stop    context.CancelFunc
	done    chan struct{}
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
		opt: opt, log: opt.Log, fs: &roomFS{FS: vfs.Default}, memTable: memTableSize, searches: searchTime, closing: closeTime,
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
		s.fs.FS = opt.disk
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
	if err := s.checkDisk(reserveBase); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.db, err = s.openEngine(engine, lock)
	// Pebble holds the lock from here on, or, if it fails to open, nobody does.
	err = errors.Join(err, lock.Close())
	if err != nil {
		return nil, engineError("opening "+opt.Dir, err)
	}
	if err := s.loadChunks(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w (in %s)", err, opt.Dir), s.db.Close())
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

func (s *Store) openEngine(dir string, lock *pebble.Lock) (*pebble.DB, error) {
	var fs vfs.FS = s.fs
	if s.opt.NoSync {
		fs = noSyncFS{fs}
	}
	o := &pebble.Options{
		FS:   fs,
		Lock: lock,
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
				s.log.Error("store: work in the background failed, it will be tried again", "error", err)
			},
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				s.log.Error("store: a file is corrupt", "file", i.Path, "error", i.Details)
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
	return pebble.Open(dir, o)
}

// loadChunks reads the bounds of every chunk.
func (s *Store) loadChunks() error {
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
	return engineError("closing", s.db.Close())
}

// Stats returns the state of the whole store. Traces counts a trace that came
// in several writes once for each until they are merged.
func (s *Store) Stats() Stats {
	st := Stats{Written: s.written.Load(), Expired: s.expired.Load(), Refused: s.refused.Load(), Version: version}
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
