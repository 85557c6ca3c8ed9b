package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"golang.org/x/sync/semaphore"
)

// read calls f with a view of what the context's reader may see and has not expired. The view is closed when f
// returns.
func (s *Store) read(ctx context.Context, f func(v *view) error) (err error) {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	v, err := s.view()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	v.ask = askOf(ctx)
	if v.lens = s.lens(ctx, s.now()); v.lens != nil {
		for i, z := range v.chunks {
			// Of what is seen of a chunk, nothing is known before it is read: a trace may begin with any of its spans.
			seen := *z
			seen.maxFrom = z.maxStart
			v.chunks[i] = &seen
		}
	}
	return f(v)
}

// view is the store at one moment: what is written, merged or removed later
// does not show. It must be closed; then nothing that it gave out may be used.
// It is used by one goroutine.
type view struct {
	s      *Store
	snap   *pebble.Snapshot
	parts  reader // of chunks: snap, or a salvage
	chunks []*zone
	open   map[uint64]*chunkData
	traces *pebble.Iterator
	lens   *lens // what is left out; nil: nothing
	holding

	damaged int // chunks that were left out
}

// What a view keeps at hand: chunks, and of each some decompressed blocks,
// because traces that are close in time are in the same few.
const (
	openChunks = 64
	openBlocks = 4
)

func (s *Store) view() (*view, error) {
	s.mu.RLock()
	v := &view{s: s, snap: s.db.NewSnapshot(), chunks: slices.Clone(s.chunks), open: map[uint64]*chunkData{}}
	v.parts = guarded{v.snap, &s.damage}
	change := s.change
	s.mu.RUnlock()
	if change == nil {
		return v, nil
	}
	done, err := change.isIn(v.snap)
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	if done {
		v.chunks = change.of(v.chunks)
	}
	return v, nil
}

func (v *view) close() error {
	var err error
	for _, c := range v.open {
		err = errors.Join(err, c.close())
	}
	if v.traces != nil {
		err = errors.Join(err, v.traces.Close())
	}
	if v.snap != nil {
		err = errors.Join(err, v.snap.Close())
	}
	return engineError("reading", err)
}

// chunkData is a chunk of which parts have been read.
type chunkData struct {
	v      *view
	zone   *zone
	names  *names
	groups []group
	// nameBytes is what the names take of the view's holding.
	nameBytes int64
	filters   [filterParts][]filter
	columns   [columns]*column
	closers   []io.Closer

	focused    bool // the view's lens has been applied
	projection *projection

	pinned bool // in use: must stay open

	blocks    [openBlocks][]byte // decompressed
	blockNums [openBlocks]int64  // their numbers, -1: none
	nextBlock int                // which is replaced next
}

// chunk returns what is seen of the chunk with the bounds, or reads them: its own bounds may be narrower, and it
// may have no span at all.
func (v *view) chunk(number uint64, z *zone) (*chunkData, error) {
	c, err := v.stored(number, z)
	if err == nil {
		err = c.focus(v.lens)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// stored returns the chunk as chunk does, as it is stored or with what is seen of it.
func (v *view) stored(number uint64, z *zone) (*chunkData, error) {
	if c := v.open[number]; c != nil {
		return c, nil
	}
	c := &chunkData{v: v, zone: z}
	for i := range c.blockNums {
		c.blockNums[i] = -1
	}
	if z == nil {
		b, err := c.get(number, partZone, 0)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		if c.zone, err = parseZone(number, b); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if len(v.open) >= openChunks || v.sizes[holdsNames] > maxNames {
		for n, old := range v.open {
			if old.pinned {
				continue
			}
			delete(v.open, n)
			if err := old.close(); err != nil {
				return nil, errors.Join(engineError("reading", err), c.close())
			}
		}
	}
	v.open[number] = c
	return c, nil
}

// drop lets go of a chunk that will not be asked again.
func (v *view) drop(c *chunkData) error {
	delete(v.open, c.zone.chunk)
	return c.close()
}

func (c *chunkData) close() error {
	var err error
	for _, x := range c.closers {
		err = errors.Join(err, x.Close())
	}
	c.closers, c.filters = nil, [filterParts][]filter{}
	c.v.sizes[holdsNames] -= c.nameBytes
	c.nameBytes = 0
	if c.projection == nil { // else they are in memory of their own
		c.columns = [columns]*column{}
	}
	return err
}

// get returns a part. It stays valid until the chunk is closed.
func (c *chunkData) get(number uint64, part byte, n uint32) ([]byte, error) {
	b, closer, err := c.v.parts.Get(partKey(number, part, n))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, corrupt("chunk %d lacks part %d, %d", number, part, n)
	}
	if err != nil {
		return nil, engineError("reading", err)
	}
	c.closers = append(c.closers, closer)
	return b, nil
}

// dictionary returns the chunk's names, cut to text.MostName bytes.
func (c *chunkData) dictionary() (*names, error) {
	if c.names == nil {
		n, err := c.readNames()
		if err != nil {
			return nil, err
		}
		c.names, c.nameBytes = n, n.size()
		c.v.sizes[holdsNames] += c.nameBytes
		return n, c.v.more()
	}
	return c.names, nil
}

// readNames reads the dictionary. Names may be long that were stored before they were cut: what is not cut yet is held
// only here, and what was cut is kept for other queries.
func (c *chunkData) readNames() (*names, error) {
	if s := c.v.s; s != nil {
		if n := s.shortened.get(c.zone.chunk); n != nil {
			return n, nil
		}
	}
	if n := int64(min(c.zone.bytes, maxRawNames)); n > freeBytes { //nolint:gosec // bounded
		if err := rawNames.Acquire(context.Background(), n); err != nil {
			return nil, err
		}
		defer rawNames.Release(n)
	}
	b, closer, err := c.v.parts.Get(partKey(c.zone.chunk, partNames, 0))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, corrupt("chunk %d lacks its names", c.zone.chunk)
	}
	if err != nil {
		return nil, engineError("reading", err)
	}
	n, short, err := parseNames(b)
	if err := errors.Join(err, closer.Close()); err != nil {
		return nil, err
	}
	if short && c.v.s != nil {
		c.v.s.shortened.put(c.zone.chunk, n)
	}
	return n, nil
}

// shortened are dictionaries that were long, by chunk. They do not change.
type shortened struct {
	mu    sync.Mutex
	names map[uint64]*names
	size  int64
}

const maxShortened = 8 << 20 // bytes

func (s *shortened) get(chunk uint64) *names {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[chunk]
}

func (s *shortened) put(chunk uint64, n *names) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += n.size(); s.names == nil || s.size > maxShortened {
		s.names, s.size = map[uint64]*names{}, n.size()
	}
	s.names[chunk] = n
}

// maxRawNames bounds the chunks, in bytes, of which dictionaries are read at once. One that is larger is read alone.
const maxRawNames = 64 << 20

var rawNames = semaphore.NewWeighted(maxRawNames)

// rowsOf is how many numbers the column has.
func (z *zone) rowsOf(col int) int {
	switch {
	case col <= colFlags:
		return int(z.spans)
	case col >= colEdge:
		return int(z.edges)
	}
	return int(z.traces)
}

// column returns a column. Numbers that index something else are checked where
// they are used.
func (c *chunkData) column(col int) (column, error) {
	if got := c.columns[col]; got != nil {
		return *got, nil
	}
	n := c.zone.rowsOf(col)
	var parsed column
	b, closer, err := c.v.parts.Get(partKey(c.zone.chunk, partColumn, uint32(col)))
	switch {
	case errors.Is(err, pebble.ErrNotFound): // all zero
	case err != nil:
		return column{}, engineError("reading", err)
	default:
		c.closers = append(c.closers, closer)
		if col == colTraceID {
			if len(b) != 16*n {
				return column{}, corrupt("%d bytes of trace ids for %d traces", len(b), n)
			}
			parsed = column{16, b}
		} else if parsed, err = parseColumn(b, n); err != nil {
			return column{}, err
		}
	}
	if col == colTraceID && parsed.b == nil {
		return column{}, corrupt("chunk %d lacks trace ids", c.zone.chunk)
	}
	c.columns[col] = &parsed
	return parsed, nil
}

func (c *chunkData) resources() ([]group, error) {
	if c.groups == nil {
		b, err := c.get(c.zone.chunk, partGroups, 0)
		if err != nil {
			return nil, err
		}
		if err := c.v.hold(holdsGroups, c, decompressed(b)); err != nil {
			return nil, err
		}
		if c.groups, err = parseGroups(b, c.zone.uncompressed); err != nil {
			return nil, err
		}
	}
	return c.groups, nil
}

// blockFilters returns a part of the blocks' filters.
func (c *chunkData) blockFilters(part uint32) ([]filter, error) {
	if c.filters[part] == nil {
		b, err := c.get(c.zone.chunk, partFilters, part)
		if err != nil {
			return nil, err
		}
		if c.filters[part], err = parseFilters(b, int(c.zone.blocks)); err != nil {
			return nil, err
		}
	}
	return c.filters[part], nil
}

// record returns what stands of a trace in the chunk.
func (c *chunkData) record(p place) ([]byte, error) {
	block, err := c.block(p.block)
	if err != nil {
		return nil, err
	}
	if uint64(p.offset)+uint64(p.length) > uint64(len(block)) {
		return nil, corrupt("a trace lies beyond block %d of chunk %d", p.block, c.zone.chunk)
	}
	return block[p.offset : p.offset+p.length], nil
}

// spansAt returns a trace's spans and the groups that they name.
func (c *chunkData) spansAt(p place) (groups []group, record []byte, err error) {
	if groups, err = c.resources(); err != nil {
		return nil, nil, err
	}
	record, err = c.record(p)
	return groups, record, err
}

// callColumns returns what the calls of the chunk are: their edges, and the
// spans that measure them.
func (c *chunkData) callColumns() (edges, spans column, err error) {
	if edges, err = c.column(colEdge); err != nil {
		return edges, spans, err
	}
	spans, err = c.column(colEdgeSpan)
	return edges, spans, err
}

// block returns a block, decompressed.
func (c *chunkData) block(n uint32) ([]byte, error) {
	if i := slices.Index(c.blockNums[:], int64(n)); i >= 0 {
		return c.blocks[i], nil
	}
	b, closer, err := c.v.parts.Get(partKey(c.zone.chunk, partBlock, n))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, corrupt("chunk %d lacks block %d", c.zone.chunk, n)
	}
	if err != nil {
		return nil, engineError("reading", err)
	}
	var raw []byte
	if err = c.v.hold(holdsBlock, c, decompressed(b)); err == nil {
		raw, err = decompress(b, c.zone.uncompressed)
	}
	if err := errors.Join(err, closer.Close()); err != nil {
		return nil, err
	}
	c.blocks[c.nextBlock], c.blockNums[c.nextBlock] = raw, int64(n)
	c.nextBlock = (c.nextBlock + 1) % openBlocks
	return raw, nil
}

// blockSize is the size of a block, decompressed, in bytes.
func (c *chunkData) blockSize(n uint32) (int64, error) {
	if c.zone.uncompressed <= freeBytes {
		return int64(c.zone.uncompressed), nil //nolint:gosec // small
	}
	if i := slices.Index(c.blockNums[:], int64(n)); i >= 0 {
		return int64(len(c.blocks[i])), nil
	}
	b, closer, err := c.v.parts.Get(partKey(c.zone.chunk, partBlock, n))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil // its reader finds the damage
	}
	if err != nil {
		return 0, engineError("reading", err)
	}
	return decompressed(b), engineError("reading", closer.Close())
}

// places returns where what is seen of the trace stands, by the number of the chunk. Their ordinals are those of
// the chunks as they are seen.
func (v *view) places(ctx context.Context, id pcommon.TraceID) ([]place, error) {
	places, err := v.storedPlaces(ctx, id)
	if err != nil || v.lens == nil {
		return places, err
	}
	seen := places[:0]
	for _, p := range places {
		c, err := v.chunk(p.chunk, nil)
		if err != nil {
			return nil, err
		}
		var ok bool
		if p.ordinal, ok = c.seen(p.ordinal); ok {
			seen = append(seen, p)
		}
	}
	return seen, nil
}

// storedPlaces returns where the trace stands, as it is stored.
func (v *view) storedPlaces(ctx context.Context, id pcommon.TraceID) ([]place, error) {
	if v.traces == nil {
		it, err := v.snap.NewIterWithContext(ctx, &pebble.IterOptions{
			LowerBound: []byte{keyTrace}, UpperBound: []byte{keyTrace + 1},
		})
		if err != nil {
			return nil, engineError("reading", err)
		}
		v.traces = it
	}
	prefix := append([]byte{keyTrace}, id[:]...)
	var places []place
	for ok := v.traces.SeekGE(prefix); ok && bytes.HasPrefix(v.traces.Key(), prefix); ok = v.traces.Next() {
		p, err := parsePlace(v.traces.Key(), v.traces.Value())
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, engineError("reading", v.traces.Error())
}

// decodeChunkKey returns the number of the chunk whose part has the key.
func decodeChunkKey(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }
