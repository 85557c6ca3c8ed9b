package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble cannot go on after a failed write to its log. So the store checks first:
// a write is refused while less than a reserve is free, which is enough for
// everything in progress at that moment: the log of this write, the flush of the
// memtables, and a compaction. If another process uses the reserve up meanwhile,
// roomFS waits.
const (
	reserveMemTables = 3        // in sizes of a memtable
	reserveBase      = 16 << 20 // bytes: manifest, output of a compaction; enough to open and to remove
)

// writeNeeds is what must be free for a batch of the size to be written: three
// times the batch, for the log, the table that it becomes, and the compaction
// that moves it; and the reserve.
func (s *Store) writeNeeds(size int) int {
	return reserveMemTables*s.memTable + reserveBase + 3*size
}

// checkDisk returns ErrFull if so many bytes are not free.
func (s *Store) checkDisk(need int) error {
	if s.fs.waiting.Load() > 0 { // it may be a quota, of which the file system does not tell
		return fmt.Errorf("%w: %s: what came before still waits for room", ErrFull, s.opt.Dir)
	}
	usage, err := s.fs.GetDiskUsage(s.opt.Dir)
	if err != nil {
		return fmt.Errorf("store: asking for free space: %w", err)
	}
	if usage.AvailBytes < uint64(need) {
		return fmt.Errorf("%w: %s has %d MiB left, %d MiB are needed; make room, or give the store a smaller size or age",
			ErrFull, s.opt.Dir, usage.AvailBytes>>20, need>>20)
	}
	return nil
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// noSyncFS is a file system on which the log is not synced. Pebble acknowledges
// an unsynced commit before it has given it to the kernel, and kill -9 would
// lose it; a commit that is synced, on a log whose sync does nothing, has been
// given to the kernel and is safe from everything but a power cut.
type noSyncFS struct{ vfs.FS }

func (f noSyncFS) Unwrap() vfs.FS { return f.FS }

func (f noSyncFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return noSyncFile{file}, nil
}

func (f noSyncFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.wrap(name, file, err)
}

func (f noSyncFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, o...)
	return f.wrap(name, file, err)
}

func (f noSyncFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return f.wrap(to, file, err)
}

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error     { return nil }
func (noSyncFile) SyncData() error { return nil }

func (noSyncFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }
