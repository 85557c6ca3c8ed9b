package sink

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// A record of the file is the size of the body (32 bits, little endian), one byte
// that is 1 if it is compressed, and the body as it came.
const recordHead = 5

// kept is the file of bodies.
type kept struct {
	on atomic.Bool

	// reading is held (read) while the file is walked, so that reset waits.
	// It is taken before mu; storing goes on meanwhile.
	reading sync.RWMutex

	mu   sync.Mutex // guards what follows
	file *os.File
	out  *bufio.Writer
	size int64 // bytes stored, written to the file or not
	err  error // of the first write that failed
}

func (k *kept) open(path, dir string) error {
	var err error
	if path != "" {
		k.file, err = os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	} else if k.file, err = os.CreateTemp(dir, "tare-sink-*"); err == nil {
		if err = os.Remove(k.file.Name()); err != nil {
			err = errors.Join(err, k.file.Close())
		}
	}
	if err != nil {
		return err
	}
	k.out = bufio.NewWriterSize(k.file, 1<<20)
	return nil
}

// store appends a body, if bodies are kept.
func (k *kept) store(body []byte, zipped bool) error {
	if !k.on.Load() {
		return nil
	}
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(body))) //nolint:gosec // at most MaxBody
	if zipped {
		head[4] = 1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		_, k.err = k.out.Write(head[:])
	}
	if k.err == nil {
		_, k.err = k.out.Write(body)
	}
	if k.err != nil {
		return fmt.Errorf("file of received spans: %w", k.err)
	}
	k.size += int64(len(head) + len(body))
	return nil
}

// flush makes everything that was stored readable, and tells how much that is.
func (k *kept) flush() (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = k.out.Flush()
	}
	return k.size, k.err
}

// each decompresses every body that has been stored when it begins, in the order
// of arrival. A body is only valid until f returns.
func (k *kept) each(f func(body []byte) error) error {
	k.reading.RLock()
	defer k.reading.RUnlock()
	size, err := k.flush()
	if err != nil {
		return fmt.Errorf("file of received spans: %w", err)
	}
	r := recordReader{in: bufio.NewReaderSize(io.NewSectionReader(k.file, 0, size), 1<<20)}
	for n := 1; ; n++ {
		body, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(body)
		}
		if err != nil {
			return fmt.Errorf("received spans, request %d: %w", n, err)
		}
	}
}

func (k *kept) reset() error {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.out.Reset(k.file)
	k.size = 0
	_, err := k.file.Seek(0, io.SeekStart)
	k.err = errors.Join(err, k.file.Truncate(0))
	if k.err != nil {
		return fmt.Errorf("file of received spans: %w", k.err)
	}
	return nil
}

func (k *kept) close() error {
	_, err := k.flush()
	return errors.Join(err, k.file.Close())
}
