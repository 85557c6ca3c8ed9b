package golang

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// FuzzDecoders gives every decoder memory of arbitrary content: none may panic,
// or go on for ever.
func FuzzDecoders(f *testing.F) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	for name, off := range map[string]int64{".rodata": 4096, ".gopclntab": 0, ".text": 65536, ".itablink": 0, ".typelink": 0} {
		e, err := elf.NewFile(self)
		if err != nil {
			f.Fatal(err)
		}
		if s := e.Section(name); s != nil {
			b := make([]byte, min(s.Size, 4096))
			_, _ = s.ReadAt(b, off)
			for i := range 4 {
				f.Add(b, i&1 > 0, i&2 > 0)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, other, again bool) {
		readingtest.Live(t, func() { decode(b, other, again) })
	})
}

// decode gives every decoder a memory: b, or b again and again.
func decode(b []byte, other, again bool) {
	const at = 0x1000
	m := &module{image: &image{elf: &elffile.File{FileHeader: elf.FileHeader{Type: elf.ET_EXEC, Machine: elf.EM_X86_64}}, account: reading.New(),
		file: bytes.NewReader(b), segs: []segment{{addr: at, size: uint64(len(b))}}, chunks: map[chunk][]byte{}, last: chunk{1, 0}}, arch: &amd64}
	if other {
		m.arch = &arm64
	}
	n := uint64(len(b))
	if again && n > 0 {
		n = 1 << 30
		m.file, m.segs[0].size = readingtest.Endless(b), n
	}
	all, words := slice{at, n}, slice{at, n / 8}
	m.decode(at, b)
	m.names, m.pctab, m.functions, m.ftab, m.nfunc = all, all, all, words, n/8
	m.text, m.etext, m.types, m.etypes, m.rodata, m.gofunc = at, at+n, at, at+n, at, at
	m.typelinks, m.itablinks, m.itabs, m.eitabs, m.descriptors = slice{at, n / 4}, words, at, at+n, 0
	if other {
		m.descriptors, m.itablinks = at+n, slice{}
	}
	for off := uint64(0); off < min(n, 1024); off += 8 {
		t, ok := m.typeAt(at + off)
		if !ok {
			continue
		}
		m.name(t)
		m.pkg(t)
		m.parentOf(m.target(t), t, 0)
		_, _ = m.mapOf(t)
		m.descriptorSize(t)
	}
	fn := function{Range: Range{at, at + n}, record: at}
	for i := range 8 {
		_, _ = m.argumentSlot(fn, i)
	}
	m.closureSlots(fn)
	m.findHash(at, 2)
	if fn, ok := m.at(at + n/2); ok {
		_, _ = m.frame(fn, fn.Low)
		var s Slot
		m.setEntries([]slotOf{{fn, &s}})
	}
	derive(m)
}

// inTest is in the test's executable, for that to have something to find.
var inTest = []any{http.Get, http.ListenAndServe}

// torn changes bytes of what it reads.
type torn struct {
	io.ReaderAt
	random *rand.Rand
	rate   float64 // of reads that are changed
	reads  int
}

func (r *torn) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, off)
	// ELF's own headers are debug/elf's.
	if r.reads++; off > 1<<12 && n > 0 {
		for range n/512 + 1 {
			if r.random.Float64() < r.rate {
				var w [8]byte
				binary.LittleEndian.PutUint64(w[:], r.random.Uint64()>>r.random.IntN(64))
				copy(b[r.random.IntN(n):n], w[:r.random.IntN(9)])
			}
		}
	}
	return n, err
}

// An executable of which parts are not what they should be gives what is left of
// it, or a refusal: all of it where next to nothing is changed, less and less the
// more is.
func TestTorn(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	whole, err := ReadFile(self, reading.New())
	if err != nil || len(inTest) == 0 ||
		len(whole.HTTP1Servers)+len(whole.HTTP1Clients)+len(whole.HTTP2Servers)+len(whole.HTTP2Clients) != 4 {
		t.Fatalf("%+v, %v", whole, err)
	}
	const seeds = 20
	for _, rate := range []float64{0, 0.001, 0.1, 1} {
		same, less, refused := 0, 0, 0
		for seed := range uint64(seeds) {
			r := &torn{ReaderAt: self, random: rand.New(rand.NewPCG(seed, 0)), rate: rate}
			l, err := ReadFile(r, reading.New())
			switch {
			case (l == nil) == (err == nil):
				t.Errorf("%v and %v", l, err)
			case l == nil:
				refused++
			case reflect.DeepEqual(l, whole):
				same++
			default:
				less++
			}
			if r.reads > 1<<20 {
				t.Errorf("%d reads", r.reads)
			}
		}
		t.Logf("%g of reads changed: %d whole, %d less, %d refused", rate, same, less, refused)
		if rate == 0 && same < seeds || rate == 1 && same > 0 {
			t.Errorf("%g of reads changed: %d of %d were read as the executable itself", rate, same, seeds)
		}
	}
}
