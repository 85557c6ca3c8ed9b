package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// retentionFile says for how long spans are kept, as the store was opened last, for who looks at the directory alone.
const retentionFile = "RETENTION"

// Retention is how long spans are kept.
type Retention struct {
	Age      time.Duration            `json:"age_ns"`      // 0: no limit
	Services map[string]time.Duration `json:"services_ns"` // by patterns of names
}

// Retention is what the store was opened with.
func (s *Store) Retention() Retention {
	return Retention{s.opt.MaxAge, maps.Clone(s.opt.Services)}
}

func (s *Store) writeRetention() error {
	b, err := json.MarshalIndent(s.Retention(), "", "  ")
	if err == nil {
		err = replaceFile(filepath.Join(s.opt.Dir, retentionFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// readRetention reads what writeRetention wrote; nothing if there is no such file.
func readRetention(dir string) (r Retention, err error) {
	b, err := os.ReadFile(filepath.Join(dir, retentionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Retention{}, fmt.Errorf("store: %s: %w", retentionFile, err)
	}
	return r, nil
}

// countOverdue counts the spans that are stored and that no query shows, since the retention of their service is over.
func (s *Store) countOverdue(r Retention) (n uint64, err error) {
	if len(r.Services) == 0 {
		return 0, nil
	}
	s.opt.Services = r.Services
	defer func() { s.opt.Services = nil }()
	err = s.read(context.Background(), func(v *view) error {
		for _, z := range v.chunks {
			c, err := v.chunk(z.chunk, z)
			if errors.Is(err, ErrCorrupt) {
				continue // Check says what is damaged
			}
			if err != nil {
				return err
			}
			n += uint64(z.spans - c.zone.spans)
			if err := v.drop(c); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
