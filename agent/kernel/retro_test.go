package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/tare-trace/tare/bpf"
)

const retroSecret = 0x5ec2e7

// memoryOf is such a memory of so many segments, which the kernel side does not know.
func memoryOf(cpus, segments int) *Retro {
	const slack = 512
	words := func(bytes int) []byte { // aligned to 8 bytes
		w := make([]uint64, bytes/8)
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), bytes)
	}
	return &Retro{
		memory: words(segments * (bpf.RetroSegment + slack)), places: words((1 + cpus) * int(unsafe.Sizeof(bpf.RetroPlace{}))),
		size: uint64(bpf.RetroSegment + slack), segments: uint64(segments), secret: retroSecret,
	}
}

// put writes a record as retro_reserve and retro_commit of bpf/retro.bpf.h do.
func put(r *Retro, cpu int, record []byte) (commit func()) {
	const place = int(unsafe.Sizeof(bpf.RetroPlace{}))
	here := (*atomic.Uint64)(unsafe.Pointer(&r.places[(1+cpu)*place]))
	next := (*atomic.Uint64)(unsafe.Pointer(&r.places[0]))
	size := uint64(len(record)+8+7) &^ 7
	at := here.Add(size) - size
	used := at & (1<<bpf.RetroShift - 1)
	n := at >> bpf.RetroShift
	if used == 0 || used+size > retroSegment || next.Load()-n >= r.segments/2 {
		n, used = next.Add(1)-1, 0
		here.Store(n<<bpf.RetroShift | size)
	}
	b := r.memory[n&(r.segments-1)*r.size+used:]
	for i := 0; i+8 <= len(record); i += 8 {
		(*atomic.Uint64)(unsafe.Pointer(&b[8+i])).Store(binary.NativeEndian.Uint64(record[i:]))
	}
	return func() {
		(*atomic.Uint64)(unsafe.Pointer(&b[0])).Store(((n*retroSegment+used)<<bpf.RetroWords | size/8) ^ retroSecret)
	}
}

func numbered(n uint64, size int) []byte {
	b := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.NativeEndian.PutUint64(b[i:], n)
	}
	return b
}

func everything([]byte) bool { return true }

// All CPUs write, and a reader that follows them has each record once, as it was written.
func TestRetroReadsAll(t *testing.T) {
	const cpus, records = 3, 20000
	r := memoryOf(cpus, 64)
	c := r.From(r.Here())
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[uint64]int{}
	read := func(to Place) {
		c.Read(to, everything, func(raw []byte) {
			n := binary.NativeEndian.Uint64(raw)
			for i := 8; i+8 <= len(raw); i += 8 {
				if binary.NativeEndian.Uint64(raw[i:]) != n {
					t.Fatalf("record %d is mixed with another", n)
				}
			}
			seen[n]++
		})
	}
	for n := range uint64(records) {
		put(r, random.IntN(cpus), numbered(n, 16+8*random.IntN(40)))()
		if random.IntN(100) == 0 {
			read(r.Here())
		}
	}
	read(r.Here())
	if len(seen) != records || c.Overwritten != 0 || c.Holes != 0 {
		t.Errorf("%d of %d records, %d bytes overwritten, %d holes", len(seen), records, c.Overwritten, c.Holes)
	}
	for n, times := range seen {
		if times != 1 {
			t.Fatalf("record %d was read %d times", n, times)
		}
	}
}

// A record that is not written to its end is not read, hides none behind it, and is read later if it is the last.
func TestRetroWaitsForRecords(t *testing.T) {
	r := memoryOf(1, 16)
	c := r.From(r.Here())
	count := func() (n int) {
		c.Read(r.Here(), everything, func([]byte) { n++ })
		return n
	}
	put(r, 0, numbered(1, 64))()
	commit := put(r, 0, numbered(2, 64))
	if n := count(); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	commit()
	if n := count(); n != 1 {
		t.Errorf("%d records, want the one that was being written", n)
	}
	put(r, 0, numbered(3, 64)) // never whole
	put(r, 0, numbered(4, 64))()
	if n := count(); n != 1 || c.Holes != 1 {
		t.Errorf("%d records and %d holes, want 1 and 1", n, c.Holes)
	}
}

// A reader that the writers overtake, at any time, is given no record of two.
func TestRetroIsOvertaken(t *testing.T) {
	const writers, records = 2, 60000
	r := memoryOf(writers, 16) // 4 MiB, of which all is written several times
	c := r.From(r.Here())
	var writing sync.WaitGroup
	for cpu := range writers {
		writing.Go(func() {
			for n := range uint64(records) {
				put(r, cpu, numbered(n<<1|uint64(cpu), 200))()
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	read, mixed := 0, 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		c.Read(r.Here(), everything, func(raw []byte) {
			read++
			first := binary.NativeEndian.Uint64(raw)
			for i := 8; i+8 <= len(raw); i += 8 {
				if binary.NativeEndian.Uint64(raw[i:]) != first {
					mixed++
					break
				}
			}
		})
	}
	t.Logf("%d of %d records, %d bytes overwritten", read, writers*records, c.Overwritten)
	if mixed > 0 || read == 0 || read > writers*records {
		t.Errorf("%d of %d records that were read are of two", mixed, read)
	}
	if read < writers*records && c.Overwritten == 0 {
		t.Errorf("%d records are missing, and none counts as overwritten", writers*records-read)
	}
}

// What somebody sends does not look like a record.
func TestRetroForged(t *testing.T) {
	r := memoryOf(1, 16)
	c := r.From(r.Here())
	forged := make([]byte, 0, 192)
	for at := uint64(0); len(forged) < 192; at += 8 { // of every place, without the secret
		forged = binary.NativeEndian.AppendUint64(forged, (at+16)<<bpf.RetroWords|3)
	}
	put(r, 0, forged) // is not read as a whole: its bytes are looked at
	put(r, 0, numbered(7, 64))()
	n := 0
	c.Read(r.Here(), everything, func(raw []byte) {
		if n++; binary.NativeEndian.Uint64(raw) != 7 {
			t.Errorf("%x was taken for a record", raw)
		}
	})
	if n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestRetroWhole(t *testing.T) {
	r := memoryOf(1, 16)
	put(r, 0, numbered(0, 64))()
	before := r.Here()
	for n := uint64(0); r.Here().Written() < 16*retroSegment-retroSegment/2; n++ {
		if !r.Whole(before, r.Here()) {
			t.Fatalf("overwritten after %d bytes", r.Here().Written())
		}
		put(r, 0, numbered(n, 200))()
	}
	for n := uint64(0); r.Here().Written() < 17*retroSegment; n++ {
		put(r, 0, numbered(n, 200))()
	}
	if r.Whole(before, r.Here()) {
		t.Error("all was overwritten, and counts as whole")
	}
}

// A CPU that writes seldom neither holds up the reader nor writes where another one does by then.
func TestRetroOfIdleCPU(t *testing.T) {
	r := memoryOf(2, 16)
	c := r.From(r.Here())
	put(r, 1, numbered(1, 64))()
	var before Place
	for n := uint64(0); r.Here().Written() < 40*retroSegment; n++ {
		put(r, 0, numbered(n<<1, 200))()
		if n%500 == 0 {
			before = r.Here()
			c.Read(before, everything, func([]byte) {})
		}
	}
	if now := r.Here(); !r.Whole(before, now) {
		t.Error("what was written just now counts as overwritten, since a CPU has written nothing")
	}
	put(r, 1, numbered(3, 64))()
	seen := 0
	c.Read(r.Here(), everything, func(raw []byte) {
		if n := binary.NativeEndian.Uint64(raw); n&1 == 1 {
			seen++
		}
	})
	if seen != 1 || c.Overwritten != 0 {
		t.Errorf("%d records of the idle CPU, want the last; %d bytes overwritten", seen, c.Overwritten)
	}
}
