package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// refuseSpecial refuses a store that has something else than regular files and directories: opening a named pipe waits
// for ever, reading a device may, and a symbolic link leads to what the store did not write. Its name alone is looked
// at. A directory that is no store is not searched.
func refuseSpecial(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, formatFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == dir { // removed since; the directory itself may be a link
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "lost+found" {
			return fs.SkipDir
		}
		if what := special(d); what != "" {
			return fmt.Errorf("%w: %s is %s instead of a regular file: the store did not write it; remove it, or put the file there again", ErrInvalid, path, what)
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrInvalid) {
		return fmt.Errorf("store: %w", err)
	}
	return err
}

// special names what is neither a regular file nor a directory where one may be; "" if it is.
func special(d fs.DirEntry) string {
	switch t := d.Type(); {
	case t.IsRegular():
		return ""
	case t.IsDir():
		own := []string{formatFile, ledgerFile, retentionFile, "LOCK"}
		if slices.Contains(own, d.Name()) || ofEngine(d.Name()) || strings.HasPrefix(d.Name(), "OPTIONS-") || strings.HasPrefix(d.Name(), "marker.") {
			return "a directory"
		}
		return ""
	case t&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case t&fs.ModeSocket != 0:
		return "a socket"
	case t&fs.ModeDevice != 0:
		return "a device"
	case t&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "something"
}
