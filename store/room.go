package store

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// roomFS is a file system that retries writes which fail because the disk is full,
// where Pebble cannot handle the failure: after a failed write to its log or its
// manifest it can only end the process. Such a write is repeated until there is
// space, and its callers block meanwhile. So the process survives when another one
// fills the disk faster than checkDisk notices; reads go on, and new writes are
// refused at once.
//
// Writes of tables are not repeated: they fail after a pause, Pebble removes the
// unfinished table, which frees space, and tries again.
//
// A sync that fails is never repeated: the data that it should have brought to the
// disk may be lost, and the next sync would not report that.
type roomFS struct {
	vfs.FS
	log *slog.Logger

	waiting atomic.Int32 // writes
}

const (
	roomPoll   = 100 * time.Millisecond
	tablePause = time.Second
)

func (f *roomFS) Unwrap() vfs.FS { return f.FS }

// do runs an operation that may fail because the disk is full.
func (f *roomFS) do(name string, try func() error) error {
	err := try()
	if !isFull(err) {
		return err
	}
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	if strings.HasSuffix(name, ".sst") {
		time.Sleep(tablePause)
		return err
	}
	f.log.Error("store: the disk is full, waiting for room", "file", name, "error", err)
	for isFull(err) {
		time.Sleep(roomPoll)
		err = try()
	}
	f.log.Info("store: there is room again", "file", name)
	return err
}

func (f *roomFS) file(name string, open func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.do(name, func() error {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &roomFile{file, f, name}, nil
}

func (f *roomFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) {
		file, err := f.FS.Create(name, c)
		if err != nil {
			return nil, err
		}
		// The engine makes files that everybody may read, as far as the umask lets it.
		if err := os.Chmod(name, 0o600); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	})
}

func (f *roomFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *roomFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, c) })
}

func (f *roomFS) Link(from, to string) error {
	return f.do(to, func() error { return f.FS.Link(from, to) })
}

func (f *roomFS) Rename(from, to string) error {
	return f.do(to, func() error { return f.FS.Rename(from, to) })
}

type roomFile struct {
	vfs.File
	fs   *roomFS
	name string
}

// Write writes all of p; after a partial write it goes on where that ended.
func (f *roomFile) Write(p []byte) (int, error) {
	done := 0
	err := f.fs.do(f.name, func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	return done, err
}

func (f *roomFile) WriteAt(p []byte, at int64) (int, error) {
	done := 0
	err := f.fs.do(f.name, func() error {
		n, err := f.File.WriteAt(p[done:], at+int64(done))
		done += n
		return err
	})
	return done, err
}
