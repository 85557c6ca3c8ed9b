package discover

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children are the processes that a process has forked and that still run, and
// theirs. It is empty on a kernel without CONFIG_PROC_CHILDREN: there the next
// scan finds what a rule selects.
func (s *Scanner) Children(pid int) (found []int) {
	threads, err := os.ReadDir(filepath.Join(s.root, strconv.Itoa(pid), "task"))
	if err != nil {
		return nil
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(s.root, strconv.Itoa(pid), "task", thread.Name(), "children"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(append(found, child), s.Children(child)...)
			}
		}
	}
	return found
}
