// Package jvm reads in a HotSpot JVM where a thread keeps the identity of the
// virtual thread that it runs. All offsets are the JVM's own, from the tables
// that libjvm exports for debuggers; there is no table of versions. Other JVMs
// (OpenJ9, native images) have no such tables and are refused.
package jvm

import (
	"errors"
	"fmt"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// Identity is how the running virtual thread is told.
type Identity uint8

// The ways of telling.
const (
	// NoVirtualThreads: the JVM has none. A thread is all there is, and the layout
	// has nothing else.
	NoVirtualThreads Identity = iota
	// ByOwner, JDK 24 and later: OwnerID of the JavaThread is Thread.threadId()
	// of what runs on it, virtual or not, and is never used again while the JVM
	// runs. It is no part of the heap: right under every collector.
	ByOwner
	// ByHandle, before: the thread's object is read from the heap, which is
	// exact if no collection moves it meanwhile: see Handle.
	ByHandle
)

// Layout tells where things are. Offsets are in bytes, from the JavaThread
// unless they say otherwise.
type Layout struct {
	Release  string // of the JVM: "25.0.3+9-LTS"
	Identity Identity

	// Thread is the path to the JavaThread; 0 in a thread that the JVM does not
	// know. The JVM's own threads, such as the collector's, have something
	// smaller there: what is read of them means nothing. They use no sockets.
	Thread native.Path

	OwnerID int32 // ByOwner: 8 bytes
	// Entry, ByOwner: a pointer (ContinuationEntry) that is not null exactly
	// while a virtual thread is mounted.
	Entry int32

	Handle Handle // ByHandle
}

// Handle is how a virtual thread is told before JDK 24: object is what the
// pointer at VThread (OopHandle) points to, and a virtual thread is mounted if
// there is one, and it is another than the object of ThreadObj. Its id is the 8
// bytes at TID in it.
//
// A thread that is in a system call is not stopped while objects move. Both reads
// are right if before and after them Active is 0, and Collections is the same.
type Handle struct {
	Collector          string // G1, Parallel or Serial; others move objects while threads run
	VThread, ThreadObj int32
	TID                int32  // in the object
	Active             uint64 // address of a byte: a collection stops all threads now
	Collections        uint64 // address of 4 bytes: how many began
}

const (
	minThreads = 4 // a JVM has more of its own
	tries      = 8 // threads come and go while they are read
)

// Read reads the JVM of a process, whose directory in the proc file system is given.
func Read(dir string, a *reading.Account) (*Layout, error) {
	p, err := native.Open(dir, a)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	module, err := p.Library("libjvm.so")
	if err != nil {
		return nil, err
	}
	s, err := readStructs(p.Memory, module.Address)
	if err != nil {
		return nil, err
	}
	libc, err := p.LibC()
	if err != nil {
		return nil, err
	}
	return s.layout(libc, module.Address)
}

func (s *structs) layout(libc *native.LibC, address func(string) uint64) (l *Layout, err error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	l = &Layout{}
	release, err := s.field("Abstract_VM_Version::_s_vm_release")
	if err != nil {
		return nil, err
	}
	l.Release = s.String(s.Word(release))
	owner := map[string]*int32{"_monitor_owner_id": &l.OwnerID, "_cont_entry": &l.Entry}
	handle := map[string]*int32{"_vthread": &l.Handle.VThread, "_threadObj": &l.Handle.ThreadObj}
	switch {
	case s.offsets(owner):
		l.Identity = ByOwner
	case s.offsets(handle):
		l.Identity = ByHandle
		if err := s.handle(&l.Handle, address); err != nil {
			return nil, err
		}
	default:
		var major int
		if _, err := fmt.Sscanf(l.Release, "%d", &major); err != nil || major > 18 && !eight(l.Release) {
			return nil, fmt.Errorf("JVM %.32q: gHotSpotVMStructs has no JavaThread::_vthread", l.Release)
		}
		return &Layout{Release: l.Release}, nil
	}
	for range tries {
		s.Forget()
		if l.Thread, err = s.thread(libc, l); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// thread finds the path to a thread's JavaThread, and checks that what is in it
// has the shape of an id.
func (s *structs) thread(libc *native.LibC, l *Layout) (native.Path, error) {
	owners, err := s.threads()
	if err != nil {
		return nil, err
	}
	if len(owners) < minThreads {
		return nil, fmt.Errorf("%d Java threads: not yet up", len(owners))
	}
	seen := map[uint64]bool{}
	for _, o := range owners {
		id := native.Path{l.OwnerID}
		if l.Identity == ByHandle {
			id = native.Path{l.Handle.ThreadObj, 0, l.Handle.TID}
		}
		v := id.Follow(s.Memory, o.Value)
		if v == 0 || v >= 1<<48 {
			return nil, errors.New("threads have no ids where gHotSpotVMStructs says")
		}
		seen[v] = true
	}
	// A virtual thread may change its thread between two reads.
	if 2*len(seen) <= len(owners) {
		return nil, errors.New("threads have no ids of their own where gHotSpotVMStructs says")
	}
	return libc.KeyPath(s.Memory, owners)
}

// eight says that a release is JDK 8's, whose JVM called itself 25: "25.392-b08".
func eight(release string) bool {
	var major, update, build int
	_, err := fmt.Sscanf(release, "%d.%d-b%d", &major, &update, &build)
	return err == nil && major == 25
}

// handle completes what is needed to read objects.
func (s *structs) handle(h *Handle, address func(string) uint64) error {
	collector, err := s.flag("UseG1GC", "UseParallelGC", "UseSerialGC")
	if err != nil {
		return err
	}
	switch collector {
	case "UseG1GC":
		h.Collector = "G1"
	case "UseParallelGC":
		h.Collector = "Parallel"
	case "UseSerialGC":
		h.Collector = "Serial"
	default:
		return errors.New("before JDK 24 virtual threads are told with G1, Parallel and Serial collectors only")
	}
	heap, err := s.field("Universe::_collectedHeap")
	if err != nil {
		return err
	}
	active, ok := s.fields["CollectedHeap::_is_gc_active"]
	if !ok {
		active, ok = s.fields["CollectedHeap::_is_stw_gc_active"] // JDK 23
	}
	collections, err := s.field("CollectedHeap::_total_collections")
	if heap = s.Word(heap); err != nil || !ok || heap == 0 {
		return errors.New("gHotSpotVMStructs does not tell when a collection runs")
	}
	h.Active, h.Collections = heap+active, heap+collections
	tid := address("_ZN16java_lang_Thread11_tid_offsetE")
	if tid == 0 {
		return errors.New("libjvm.so has no .symtab: where Thread.tid is is not known")
	}
	if h.TID = int32(s.Half(tid)); h.TID < 8 || h.TID > 1024 {
		return errors.New("libjvm.so has no offset of Thread.tid")
	}
	if o, ok := s.fields["OopHandle::_obj"]; !ok || o != 0 {
		return errors.New("OopHandle has an unknown shape")
	}
	return nil
}
