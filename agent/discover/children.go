package discover

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// What is looked at of a process's threads and children: what is beyond, the next scan finds.
const (
	maxThreads  = 4096
	maxChildren = 4096
)

// Children are the processes that a process has forked and that still run, and
// theirs. It is empty on a kernel without CONFIG_PROC_CHILDREN: there the next
// scan finds what a rule selects.
func (s *Scanner) Children(pid int) (found []int) {
	threads := maxThreads
	for at := -1; at < len(found); at++ {
		if at >= 0 {
			pid = found[at]
		}
		if found = s.children(pid, &threads, found); threads == 0 || len(found) == maxChildren {
			reading.Count(reading.Shape)
			break
		}
	}
	return found
}

// children adds those of the process itself.
func (s *Scanner) children(pid int, threads *int, found []int) []int {
	dir, err := os.Open(filepath.Join(s.root, strconv.Itoa(pid), "task"))
	if err != nil {
		return found
	}
	defer func() { _ = dir.Close() }()     // only read from
	names, _ := dir.Readdirnames(*threads) // of what has ended, none
	for _, thread := range names {
		*threads--
		f, err := os.Open(filepath.Join(dir.Name(), thread, "children"))
		if err != nil {
			continue
		}
		words := bufio.NewScanner(f)
		words.Split(bufio.ScanWords)
		for len(found) < maxChildren && words.Scan() {
			if child, err := strconv.Atoi(words.Text()); err == nil && !slices.Contains(found, child) {
				found = append(found, child)
			}
		}
		_ = f.Close() // only read from
	}
	return found
}
