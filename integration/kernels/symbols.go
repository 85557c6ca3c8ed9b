package main

import (
	"bufio"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A symbol is where code of a name begins.
type symbol struct {
	at   uint64
	name string
}

// symbols are in the order of their addresses.
type symbols []symbol

// maxSymbol is how long the code of the last known symbol may be; what lies further behind has no name.
const maxSymbol = 1 << 18

// of is the symbol that an address belongs to; "": none is known.
func (s symbols) of(at uint64) string {
	i, found := slices.BinarySearchFunc(s, at, func(x symbol, at uint64) int { return cmp.Compare(x.at, at) })
	if !found {
		i--
	}
	if i < 0 || at-s[i].at > maxSymbol {
		return ""
	}
	return s[i].name
}

var bpfProgram = regexp.MustCompile(`^bpf_prog_[0-9a-f]{16}_`)

// programPrefix is before the names of BPF programs and of their functions.
const programPrefix = "bpf:"

// parseSymbols reads lines "address name" of /proc/kallsyms. Of several names of one address, the first stays.
func parseSymbols(r io.Reader) (s symbols) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 2 {
			continue
		}
		if at, err := strconv.ParseUint(f[0], 16, 64); err == nil {
			s = append(s, symbol{at, bpfProgram.ReplaceAllString(f[1], programPrefix)})
		}
	}
	slices.SortStableFunc(s, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(s, func(a, b symbol) bool { return a.at == b.at })
}

// goSymbols are the functions of an executable that Go has linked.
func goSymbols(path string) (symbols, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, lines := f.Section(".text"), f.Section(".gopclntab")
	if text == nil || lines == nil {
		return nil, fmt.Errorf("%s is no executable of Go", path)
	}
	data, err := lines.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var s symbols
	for _, fn := range table.Funcs {
		s = append(s, symbol{fn.Entry, fn.Name})
	}
	slices.SortFunc(s, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	return s, nil
}

// Where code of user space is: executables of Go are linked there, the load and the sink by flags, and without random
// addresses the kernel maps what is position-independent always at the same.
var userRanges = []struct {
	from, to uint64
	what     string
}{
	{0x400000, 0x8000000, agentCode},
	{loadAt, sinkAt, loadCode},
	{sinkAt, 0x20000000, sinkCode},
	{0, 1 << 47, serviceCode},
}

const (
	loadAt, sinkAt = 0x10000000, 0x18000000

	agentCode   = "agent"
	serviceCode = "services"
	loadCode    = "load"
	sinkCode    = "receiver"

	programs = "programs"
	calling  = "calling programs"
	helpers  = "helpers"
	rest     = "rest of the kernel"
)

// parts are what instructions are added up by, in the order of tables.
var parts = []string{programs, calling, helpers, agentCode, sinkCode, rest, serviceCode, loadCode}

var (
	// The kernel's way from a hook to a program, and back.
	callingCode = regexp.MustCompile(`^(bpf_trace_run\d+|__bpf_trace_.*|__traceiter_.*|bpf_trampoline_.*|__bpf_prog_(enter|exit).*|__rcu_read_(un)?lock|__cgroup_bpf_run_filter_.*)$`)
	// What programs call.
	helperCode = regexp.MustCompile(`^(bpf_.*|____?bpf_.*|__htab_.*|htab_.*|lookup_nulls_elem_raw|array_map_.*|__local_storage.*|copy_(from|to)_(user|kernel)_nofault.*|` +
		`__check_object_size|check_stack_object|__virt_addr_valid|is_vmalloc_addr|nmi_uaccess_okay|ktime_get_mono_fast_ns|.*ringbuf.*)$`)
)

// partOf is what code at an address is part of, and its name.
func partOf(kernel symbols, at uint64) (part, name string) {
	if at < 1<<47 {
		for _, r := range userRanges {
			if at >= r.from && at < r.to {
				return r.what, r.what
			}
		}
	}
	name = cmp.Or(kernel.of(at), "unknown")
	switch {
	case strings.HasPrefix(name, programPrefix):
		part = programs
	case callingCode.MatchString(name):
		part = calling
	case helperCode.MatchString(name):
		part = helpers
	default:
		part = rest
	}
	return part, name
}

// A block of instructions ran in the window of a run.
type block struct{ at, instructions, runs uint64 }

// readBlocks reads what plugin.c has written.
func readBlocks(path string) (all []block, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("QEMU's plugin has counted nothing: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var b block
		if _, err := fmt.Sscanf(lines.Text(), "%x %d %d", &b.at, &b.instructions, &b.runs); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		all = append(all, b)
	}
	return all, lines.Err()
}
