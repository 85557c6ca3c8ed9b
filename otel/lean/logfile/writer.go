package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
)

// Writer writes whole lines of any content into a file that it rotates as an [Exporter] does. PerRequest and HoldFor
// of its Config mean nothing. It may be used by several goroutines. Make it with [NewWriter].
type Writer struct {
	mu     sync.Mutex
	file   file
	closed bool
}

// NewWriter opens the file, or creates it. It fails where [New] does.
func NewWriter(c Config) (*Writer, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("logfile: %w", err)
	}
	w := &Writer{file: file{config: c}}
	if err := w.file.open(); err != nil {
		return nil, fmt.Errorf("logfile: %w", err)
	}
	return w, nil
}

// WriteLine appends a line, and the newline that ends it. After an error nothing of it is in the file, and the next
// line is tried anew. The line must have no newline in it, nor be larger than a file may be.
func (w *Writer) WriteLine(line []byte) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return errors.New("logfile: a line with a newline in it")
	}
	b := append(append(make([]byte, 0, len(line)+1), line...), '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrShutdown
	case int64(len(b)) > w.file.config.MaxFileBytes:
		return fmt.Errorf("logfile: a line of %d bytes does not fit into a file of %d", len(b), w.file.config.MaxFileBytes)
	}
	if err := w.file.write(b); err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	return nil
}

// Close syncs the file, and closes it. Further calls do nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if err := w.file.close(); err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	return nil
}
