package store

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Damage is what a store knows to be lost, or not readable.
type Damage struct {
	// LostSpans were acknowledged, not removed, and are in no file that the store reads.
	LostSpans uint64
	// Lost are the chunks that they were in.
	Lost []LostChunk
	// Unreadable are the spans of chunks of which some part could not be read.
	UnreadableSpans uint64
	// Restored are the spans that opening found in files which the engine did not name.
	RestoredSpans uint64
	// Quarantine are the files in quarantine, relative to the store's directory.
	Quarantine []string
	// Files are the engine's files that are known to be damaged.
	Files []string
	// Notes are other findings, as sentences.
	Notes []string
}

// LostChunk is spans that came in one write, or in several that were merged.
type LostChunk struct {
	Chunk          uint64
	Spans          uint32
	Oldest, Newest time.Time // starts of its spans
}

// Any reports whether anything is wrong.
func (d Damage) Any() bool {
	return d.LostSpans+d.UnreadableSpans > 0 || len(d.Quarantine)+len(d.Files)+len(d.Notes) > 0
}

// Spans is how many spans are lost, or not readable, as far as is known.
func (d Damage) Spans() uint64 { return d.LostSpans + d.UnreadableSpans }

// damage collects what is found.
type damage struct {
	mu         sync.Mutex
	lost       []entry
	unreadable map[uint64]uint32 // spans by chunk
	restored   uint64
	quarantine []string
	files      []string
	notes      []string
	keys       map[string]error // parts that cannot be read
}

// guarded reads parts of chunks, and no part again that is damaged: whenever the engine meets
// damage, it searches for a flipped bit for a second.
type guarded struct {
	reader
	damage *damage
}

const maxKeys = 100_000 // damaged parts that are remembered

func (g guarded) Get(key []byte) ([]byte, io.Closer, error) {
	g.damage.mu.Lock()
	err := g.damage.keys[string(key)]
	g.damage.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	b, closer, err := g.reader.Get(key)
	if !isCorruption(err) {
		return b, closer, err
	}
	g.damage.mu.Lock()
	defer g.damage.mu.Unlock()
	if g.damage.keys == nil {
		g.damage.keys = map[string]error{}
	}
	if len(g.damage.keys) < maxKeys {
		g.damage.keys[string(key)] = err
	}
	return nil, nil, err
}

func (d *damage) file(path string) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if path == "" || slices.Contains(d.files, path) {
		return false
	}
	d.files = append(d.files, path)
	return true
}

func (d *damage) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, text)
}

// chunk notes that a part of the chunk cannot be read; it reports whether that is new.
func (d *damage) chunk(number uint64, spans uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.unreadable[number]; ok {
		return false
	}
	if d.unreadable == nil {
		d.unreadable = map[uint64]uint32{}
	}
	d.unreadable[number] = spans
	return true
}

// has reports whether a part of the chunk is known not to be readable.
func (d *damage) has(number uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.unreadable[number]
	return ok
}

func (d *damage) report() Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := Damage{
		RestoredSpans: d.restored, Quarantine: slices.Clone(d.quarantine),
		Files: slices.Clone(d.files), Notes: slices.Clone(d.notes),
	}
	for _, e := range d.lost {
		r.LostSpans += uint64(e.spans)
		r.Lost = append(r.Lost, LostChunk{e.chunk, e.spans, timeOf(e.min), timeOf(e.max)})
	}
	for _, spans := range d.unreadable {
		r.UnreadableSpans += uint64(spans)
	}
	return r
}

// Damage returns what is known to be lost or not readable. More is found when it is
// read; [Check] reads everything.
func (s *Store) Damage() Damage { return s.damage.report() }

// skip is called with the error that reading the chunk gave. If that says that the chunk
// is damaged, skip notes it, once, and returns nil: whoever reads many chunks goes on with
// the others.
func (v *view) skip(z *zone, err error) error {
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	v.damaged++
	if v.s != nil && v.s.damage.chunk(z.chunk, z.spans) {
		v.s.log.Error("store: a chunk is damaged, and left out of what is answered",
			"chunk", z.chunk, "spans", z.spans, "error", err)
	}
	return nil
}

// failures are errors that come again and again.
type failures struct {
	mu   sync.Mutex
	last string
	at   time.Time
}

const sayAgain = time.Minute

// new reports whether the error is another one than the last, or that was long ago.
func (f *failures) new(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text == f.last && time.Since(f.at) < sayAgain {
		return false
	}
	f.last, f.at = text, time.Now()
	return true
}

// plainCorruption removes from the engine's error what is only meant for programs.
func plainCorruption(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && line != "<corruption detail carrier>" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil && !strings.Contains(text, info.Path) {
		text += " (in " + info.Path + ")"
	}
	return text
}
