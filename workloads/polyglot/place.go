package polyglot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Place is where a service runs, and whom it asks.
type Place struct {
	Host           string
	Port           int // that clients ask
	Inner          int // that its front asks, if it has one
	Backend, Redis int
	Dir            string // for its files
	Built          string // what build.sh made
	Further        string // lines that Apache's configuration has, too

	err error
}

// Environment is what every service is told.
func (p *Place) Environment() map[string]string {
	return map[string]string{
		"HOST": p.Host, "PORT": strconv.Itoa(p.Port), "BACKEND": strconv.Itoa(p.Backend), "REDIS": strconv.Itoa(p.Redis),
	}
}

func (p *Place) at(port int) string { return p.Host + ":" + strconv.Itoa(port) }

func (p *Place) built(elements ...string) string {
	return filepath.Join(append([]string{p.Built}, elements...)...)
}

// file writes a configuration, and returns its path.
func (p *Place) file(name, format string, args ...any) string {
	path := filepath.Join(p.Dir, name)
	p.err = errors.Join(p.err, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644)) //nolint:gosec // workers read it
	return path
}

// program is the path of what was needed, and so is there.
func (p *Place) program(n Need) string {
	path, err := n.find()
	p.err = errors.Join(p.err, err)
	return path
}
