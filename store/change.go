package store

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// change is chunks that go, and what comes in their place if they are merged.
// It is one batch of the engine's. While that is written, which takes as long as
// the disk does, a view may see the engine before or after it: the view asks
// which, and has the chunks that belong to it.
type change struct {
	gone  []*zone
	added *zone // nil: nothing
}

// isIn reports whether the snapshot was made after the change.
func (c *change) isIn(snap *pebble.Snapshot) (bool, error) {
	_, closer, err := snap.Get(partKey(c.gone[0].chunk, partZone, 0))
	if errors.Is(err, pebble.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, engineError("reading", err)
	}
	return false, engineError("reading", closer.Close())
}

// of returns the chunks after the change.
func (c *change) of(chunks []*zone) []*zone {
	gone := make(map[*zone]bool, len(c.gone))
	for _, z := range c.gone {
		gone[z] = true
	}
	chunks = slices.DeleteFunc(chunks, func(z *zone) bool { return gone[z] })
	if c.added != nil {
		chunks = append(chunks, c.added)
	}
	return chunks
}

// apply makes the change, of which the batch is what the engine is told.
func (s *Store) apply(batch *pebble.Batch, c *change) error {
	s.mu.Lock()
	s.change = c
	s.mu.Unlock()
	err := s.db.Apply(batch, pebble.NoSync)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = nil
	if err == nil {
		s.chunks = c.of(s.chunks)
	}
	return err
}
