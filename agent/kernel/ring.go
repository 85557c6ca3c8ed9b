package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ring is the reader's side of a BPF ring buffer (linux/bpf.h, kernel/bpf/ringbuf.c): one page with how far it was read, one with
// how far it was written, and the records. Those are mapped once: twice behind one another, as the kernel allows, each would lie in
// one piece, but all of them would count twice as memory of the agent. Records are handed out where they lie, but one at the end,
// and what was read is given back many records at a time: each is a cache line that producers wait for.
type ring struct {
	consumer, producer []byte // mapped
	read, written      *uint64
	data               []byte
	mask               uint64
	epoll              int
	whole              []byte // the record that lies at the end and at the beginning
}

// Of a record's header: 4 bytes with its length, 4 of the kernel's own.
const (
	ringHeader  = 8
	ringBusy    = 1 << 31 // it is being written
	ringDiscard = 1 << 30
	ringGivenBy = 64 << 10 // bytes that are given back at once
)

func openRing(m *ebpf.Map) (*ring, error) {
	page, size := os.Getpagesize(), int(m.MaxEntries())
	r := &ring{mask: uint64(size - 1), epoll: -1} //nolint:gosec // a power of two
	var err error
	if r.consumer, err = unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the consumer's page: %w", err), r.close())
	}
	if r.producer, err = unix.Mmap(m.FD(), int64(page), page+size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the records: %w", err), r.close())
	}
	r.read, r.written = (*uint64)(unsafe.Pointer(&r.consumer[0])), (*uint64)(unsafe.Pointer(&r.producer[0])) //nolint:gosec // a page's first word
	r.data = r.producer[page:]
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("make an epoll instance: %w", err), r.close())
	}
	// Not poll(2), which would not wait where records are that nobody was woken for.
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, m.FD(), &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the ring: %w", err), r.close())
	}
	return r, nil
}

func (r *ring) close() error {
	var errs []error
	for _, mapped := range [][]byte{r.consumer, r.producer} {
		if mapped != nil {
			errs = append(errs, unix.Munmap(mapped))
		}
	}
	if r.epoll >= 0 {
		errs = append(errs, unix.Close(r.epoll))
	}
	*r = ring{epoll: -1}
	return errors.Join(errs...)
}

// poll hands over what comes until the time is over, and what is there then.
func (r *ring) poll(wait time.Duration, handle func(raw []byte)) (n int, err error) {
	var events [1]unix.EpollEvent
	for deadline := time.Now().Add(wait); ; n += r.drain(handle) {
		left := time.Until(deadline)
		if left <= 0 {
			return n + r.drain(handle), nil
		}
		ms := (left + time.Millisecond - 1) / time.Millisecond
		if _, err := unix.EpollWait(r.epoll, events[:], int(ms)); err != nil && !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// record is size bytes from a place on.
func (r *ring) record(at, size uint64) []byte {
	end := uint64(len(r.data))
	if at+size <= end {
		return r.data[at : at+size : at+size]
	}
	r.whole = append(append(r.whole[:0], r.data[at:]...), r.data[:at+size-end]...)
	return r.whole
}

// drain hands over what is there. The bytes are valid during the call only, and are not to be written.
func (r *ring) drain(handle func(raw []byte)) (n int) {
	read := atomic.LoadUint64(r.read)
	given := read
	for read < atomic.LoadUint64(r.written) {
		at := read & r.mask
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at]))) //nolint:gosec // records are aligned to 8 bytes
		if header&ringBusy != 0 {
			continue // it is being written at this moment
		}
		size := uint64(header &^ (ringBusy | ringDiscard))
		if header&ringDiscard == 0 {
			handle(r.record((at+ringHeader)&r.mask, size))
			n++
		}
		read += (ringHeader + size + 7) &^ 7
		if read-given >= ringGivenBy {
			atomic.StoreUint64(r.read, read)
			given = read
		}
	}
	atomic.StoreUint64(r.read, read)
	return n
}
