package store

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// change is a removal of chunks, with the chunk that replaces them if they are
// merged. It is one batch of Pebble's. While that is being written, a view may be
// a snapshot from before or after it; the view finds out which, and uses the list
// of chunks that belongs to it.
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

// apply makes the change; batch holds its writes to Pebble.
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
