package logfile

import (
	"errors"
	"fmt"
	"time"
)

// Config says what is written where. All but Path may be left zero.
type Config struct {
	// Path is the file. Its directory must exist. One process may write it at a time.
	Path string
	// PerRequest writes one line per local root, with the spans below it.
	PerRequest bool
	// HoldFor is how long spans wait for the end of their local root (PerRequest) before they are
	// written by themselves; it is looked at with every export. Default 30 s; negative: until the end of
	// the export, for callers that export whole traces.
	HoldFor time.Duration
	// MaxFileBytes is the size at which a file is rotated, at least 4096. A line that is larger is
	// dropped and counted. Default 64 MiB.
	MaxFileBytes int64
	// MaxFileAge is the age at which a file is rotated, when something is written. Default 24 h;
	// negative: no limit.
	MaxFileAge time.Duration
	// MaxTotalBytes bounds all files together, at least twice MaxFileBytes. The oldest are removed.
	// Default 1 GiB.
	MaxTotalBytes int64
	// Sync has every export wait until its lines are on the disk.
	Sync bool
}

const (
	defaultFileBytes  = 64 << 20
	defaultTotalBytes = 1 << 30
	defaultAge        = 24 * time.Hour
	defaultHold       = 30 * time.Second
	minFileBytes      = 4096
)

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.MaxTotalBytes == 0 {
		c.MaxTotalBytes = max(defaultTotalBytes, 2*c.MaxFileBytes)
	}
	if c.MaxFileBytes == 0 {
		c.MaxFileBytes = min(defaultFileBytes, c.MaxTotalBytes/2)
	}
	if c.MaxFileAge == 0 {
		c.MaxFileAge = defaultAge
	}
	if c.HoldFor == 0 {
		c.HoldFor = defaultHold
	}
	return c
}

// Validate reports what cannot work, after WithDefaults.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("no path: name the file that spans are written to")
	case c.MaxFileBytes < minFileBytes:
		return fmt.Errorf("a file of at most %d bytes: use at least %d", c.MaxFileBytes, minFileBytes)
	case c.MaxTotalBytes/2 < c.MaxFileBytes:
		return fmt.Errorf("%d bytes in all for files of %d: use at least twice as many", c.MaxTotalBytes, c.MaxFileBytes)
	}
	return nil
}
