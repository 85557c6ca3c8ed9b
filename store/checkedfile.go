package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkedFS is a file system on which blocks of tables are checked when they are read. The
// engine checks them, too, but where a checksum does not fit it searches for a flipped bit,
// which takes a second of a CPU, each time. It reads a table block by block, each with its
// trailer: a byte and the checksum of all before it. Only the footer has none; it ends with the
// file.
type checkedFS struct{ vfs.FS }

// tables is where tables are read without the engine.
var tables = checkedFS{vfs.Default}

const (
	blockChecksum = 4 // bytes, at the end of a block
	blockTrailer  = 1 + blockChecksum
)

func (f checkedFS) Unwrap() vfs.FS { return f.FS }

func (f checkedFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, o...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // the error says what is wrong
		return nil, err
	}
	return &checkedFile{file, info.Size()}, nil
}

type checkedFile struct {
	vfs.File
	size int64
}

func (f *checkedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	if err != nil || len(p) <= blockTrailer || at+int64(len(p)) >= f.size {
		return n, err
	}
	if want, got := binary.LittleEndian.Uint32(p[len(p)-blockChecksum:]), maskedCRC(p[:len(p)-blockChecksum]); want != got {
		return 0, &badBlock{at: at, size: len(p), want: want, got: got}
	}
	return n, nil
}

// maskedCRC is the checksum that LevelDB, RocksDB and Pebble use.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// badBlock is a block of a table that is not as it was written.
type badBlock struct {
	at        int64 // in the file
	size      int   // bytes, with the trailer
	want, got uint32
}

func (b *badBlock) Error() string {
	return fmt.Sprintf("%d bytes from byte %d on: checksum mismatch: %08x, want %08x", b.size, b.at, b.got, b.want)
}

func (b *badBlock) Unwrap() error { return pebble.ErrCorruption }
