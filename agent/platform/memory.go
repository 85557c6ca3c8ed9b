package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Memory is what the control group of this process allows.
type Memory struct {
	Limit  uint64 // bytes, the least of the group and of those above it; 0: none
	Kernel uint64 // bytes of it that the kernel took for itself, for maps of kernel programs above all
}

// ReadMemory reads the memory controller, of cgroup v2 or v1. Without one there is no limit.
func ReadMemory() (Memory, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Memory{}, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Memory{}, err
	}
	return memoryOf("", string(mountinfo), string(groups))
}

// memoryOf is ReadMemory with the files below a directory.
func memoryOf(root, mountinfo, groups string) (Memory, error) {
	for line := range strings.Lines(groups) { // "0::/path" of v2, "4:memory:/path" of v1
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		kind, controller := "cgroup2", ""
		switch {
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			kind, controller = "cgroup", "memory"
		case parts[0] != "0":
			continue
		}
		mount, top := hierarchy(mountinfo, kind, controller)
		if mount == "" {
			continue
		}
		below, ok := strings.CutPrefix(parts[2], strings.TrimSuffix(top, "/"))
		if !ok { // the mount shows another part: in a container, its own
			below = "/"
		}
		if m, err := readMemory(root+mount, below, kind); !errors.Is(err, os.ErrNotExist) {
			return m, err
		}
	}
	return Memory{}, nil
}

func readMemory(mount, below, kind string) (m Memory, err error) {
	own := filepath.Join(mount, below)
	if kind == "cgroup" {
		// Of the groups above, too: Linux, admin-guide/cgroup-v1/memory.rst, 5.2.
		if m.Limit, err = inStat(own, "hierarchical_memory_limit"); err != nil {
			return m, err
		}
		m.Kernel, err = inFile(own, "memory.kmem.usage_in_bytes")
		if m.Limit >= 1<<62 { // no limit is the greatest number of pages
			m.Limit = 0
		}
		return m, err
	}
	// The root of the hierarchy has no such files.
	if m.Kernel, err = inStat(own, "kernel"); err != nil { // since Linux 5.18
		return m, err
	}
	for dir := own; strings.HasPrefix(dir, mount); dir = filepath.Dir(dir) {
		limit, err := inFile(dir, "memory.max")
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return m, err
		}
		if limit > 0 && (m.Limit == 0 || limit < m.Limit) {
			m.Limit = limit
		}
	}
	return m, nil
}

// inFile reads a file of one number; "max" is 0.
func inFile(dir, name string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return number(filepath.Join(dir, name), strings.TrimSpace(string(text)))
}

// inStat reads a line of memory.stat.
func inStat(dir, key string) (uint64, error) {
	path := filepath.Join(dir, "memory.stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return number(path, strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("%s: no %s: %w", path, key, os.ErrNotExist)
}

func number(path, text string) (uint64, error) {
	if text == "max" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}
