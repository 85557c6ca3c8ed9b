package jvm

import (
	"errors"

	"github.com/tare-trace/tare/agent/runtime/native"
)

// structs are HotSpot's tables of its own types, which libjvm exports for
// debuggers (gHotSpotVM*, runtime/vmStructs.hpp).
type structs struct {
	*native.Memory
	fields map[string]uint64 // of those that are wanted, by "Type::field": offset, or of a static one its address
	sizes  map[string]uint64 // of the types that are looked for
}

// wanted are the fields of HotSpot's types that are read.
var wanted = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range []string{
		"Abstract_VM_Version::_s_vm_release", "JavaThread::_monitor_owner_id", "JavaThread::_cont_entry", "JavaThread::_vthread", "JavaThread::_threadObj",
		"Universe::_collectedHeap", "CollectedHeap::_is_gc_active", "CollectedHeap::_is_stw_gc_active", "CollectedHeap::_total_collections", "OopHandle::_obj",
		"JVMFlag::flags", "JVMFlag::numFlags", "JVMFlag::_name", "JVMFlag::_addr",
		"ThreadsSMRSupport::_java_thread_list", "ThreadsList::_length", "ThreadsList::_threads",
		"Thread::_osthread", "JavaThread::_osthread", "OSThread::_thread_id", "OSThread::_pthread_id",
	} {
		all[name] = true
	}
	return all
}()

const (
	maxEntries = 1 << 14
	maxFlags   = 1 << 13
	maxThreads = 64 // that are looked at
)

var errNotHotSpot = errors.New("libjvm.so has no gHotSpotVMStructs: not HotSpot")

// readStructs reads the tables; address gives an exported variable's, 0 if there is none.
func readStructs(m *native.Memory, address func(name string) uint64) (*structs, error) {
	s := &structs{Memory: m, fields: map[string]uint64{}, sizes: map[string]uint64{}}
	number := func(name string) uint64 { return m.Word(address("gHotSpotVM" + name)) }

	stride, typeName, fieldName := number("StructEntryArrayStride"), number("StructEntryTypeNameOffset"), number("StructEntryFieldNameOffset")
	static, offset, at := number("StructEntryIsStaticOffset"), number("StructEntryOffsetOffset"), number("StructEntryAddressOffset")
	e := number("Structs")
	if e == 0 || stride == 0 || stride > 256 {
		return nil, errNotHotSpot
	}
	for range maxEntries {
		if m.Read(e, stride) == nil {
			return nil, errNotHotSpot
		}
		name := m.String(m.Word(e + typeName))
		if name == "" {
			break
		}
		value := m.Word(e + offset)
		if m.Half(e+static) != 0 {
			value = m.Word(e + at)
		}
		if field := name + "::" + m.String(m.Word(e+fieldName)); wanted[field] {
			s.fields[field] = value
		}
		e += stride
	}

	stride, typeName, size := number("TypeEntryArrayStride"), number("TypeEntryTypeNameOffset"), number("TypeEntrySizeOffset")
	e = number("Types")
	for range maxEntries {
		name := m.String(m.Word(e + typeName))
		if name == "" {
			break
		}
		if name == "JVMFlag" {
			s.sizes[name] = m.Word(e + size)
		}
		e += stride
	}
	return s, nil
}

// field is a field's offset or, of a static one, its address; the error names it.
func (s *structs) field(name string) (uint64, error) {
	v, ok := s.fields[name]
	if !ok {
		return 0, errors.New("gHotSpotVMStructs has no " + name)
	}
	return v, nil
}

// offsets are those of fields of JavaThread; false if one is not there.
func (s *structs) offsets(into map[string]*int32) bool {
	const most = 1 << 16 // bytes of a JavaThread
	for name, offset := range into {
		v, ok := s.fields["JavaThread::"+name]
		if !ok || v == 0 || v > most {
			return false
		}
		*offset = int32(v)
	}
	return true
}

// flag says whether an option of the JVM is on.
func (s *structs) flag(names ...string) (on string, err error) {
	var f [4]uint64
	for i, name := range []string{"JVMFlag::flags", "JVMFlag::numFlags", "JVMFlag::_name", "JVMFlag::_addr"} {
		if f[i], err = s.field(name); err != nil {
			return "", err
		}
	}
	size := s.sizes["JVMFlag"]
	if size == 0 || size > 256 {
		return "", errors.New("gHotSpotVMTypes has no JVMFlag")
	}
	flags := s.Word(f[0])
	for i := range min(s.Word(f[1]), maxFlags) {
		have := s.String(s.Word(flags + i*size + f[2]))
		for _, name := range names {
			if have == name && s.Byte(s.Word(flags+i*size+f[3])) == 1 {
				return name, nil
			}
		}
	}
	return "", nil
}

// threads are the Java threads, without those that are just starting.
func (s *structs) threads() ([]native.Owner, error) {
	osthread := "Thread::_osthread"
	if _, ok := s.fields[osthread]; !ok {
		osthread = "JavaThread::_osthread" // before 22
	}
	var f [6]uint64
	for i, name := range []string{"ThreadsSMRSupport::_java_thread_list", "ThreadsList::_length", "ThreadsList::_threads",
		osthread, "OSThread::_thread_id", "OSThread::_pthread_id"} {
		v, err := s.field(name)
		if err != nil {
			return nil, err
		}
		f[i] = v
	}
	list := s.Word(f[0])
	array := s.Word(list + f[2])
	var owners []native.Owner
	for i := range min(uint64(s.Half(list+f[1])), maxThreads) {
		t := s.Word(array + 8*i)
		if os := s.Word(t + f[3]); t != 0 && os != 0 {
			owners = append(owners, native.Owner{Thread: s.Word(os + f[5]), TID: s.Half(os + f[4]), Value: t})
		}
	}
	return owners, nil
}
