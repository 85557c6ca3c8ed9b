// Package profile reads CPU profiles of Go services and assigns each sample to
// a part of the program: the application, a library, the garbage collector, or
// tracing. It refuses to guess from sizes or times: a sample belongs to exactly
// one category, by the names of the functions on its stack and by rules that
// are written down (see Categories), and what no rule knows is "other".
package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"
)

// Limits of a profile, in bytes: as it comes, and after decompression.
const (
	maxPacked = 64 << 20
	maxPlain  = 256 << 20
)

// Profile is a CPU profile.
type Profile struct {
	raw   *pprof.Profile
	value int // index of CPU time in a sample's values
	unit  time.Duration
}

// Fetch has net/http/pprof of a service take a CPU profile for a time, which is
// rounded up to whole seconds, and waits for it. The address is that of the
// profile itself: http://host:port/debug/pprof/profile. A service takes one at a
// time: a second one is an error.
func Fetch(ctx context.Context, address string, d time.Duration) (*Profile, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	seconds := max(int(math.Ceil(d.Seconds())), 1)
	q := u.Query()
	q.Set("seconds", strconv.Itoa(seconds))
	u.RawQuery = q.Encode()
	// The service answers when the time is over; one that is overloaded later.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	// A connection of its own, which ends with the answer; no proxy.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // as far as it goes
		return nil, fmt.Errorf("CPU profile: %s answered %s: %s", u, resp.Status, strings.TrimSpace(string(why)))
	}
	p, err := Read(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%w (from %s)", err, u)
	}
	return p, nil
}

// Read reads a CPU profile as net/http/pprof, runtime/pprof and Write write it,
// compressed or not.
func Read(from io.Reader) (*Profile, error) {
	b, err := readAll(from, maxPacked)
	if err == nil && len(b) > 1 && b[0] == 0x1f && b[1] == 0x8b {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = readAll(z, maxPlain)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	raw, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	for i, t := range raw.SampleType {
		if t.Type != "cpu" {
			continue
		}
		p := &Profile{raw: raw, value: i}
		switch t.Unit {
		case "nanoseconds":
			p.unit = time.Nanosecond
		case "microseconds":
			p.unit = time.Microsecond
		case "milliseconds":
			p.unit = time.Millisecond
		default:
			return nil, fmt.Errorf("CPU profile: its unit is %q, need nanoseconds", t.Unit)
		}
		return p, nil
	}
	return nil, errors.New("not a CPU profile: no sample type is called cpu")
}

// parse refuses what is not consistent: a sample without a location that exists
// would have no stack.
func parse(b []byte) (*pprof.Profile, error) {
	if len(b) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	raw, err := pprof.ParseUncompressed(b)
	if err != nil {
		return nil, err
	}
	return raw, raw.CheckValid()
}

func readAll(from io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return b, err
}

// Write writes the profile, compressed, for Read and for `go tool pprof`. The
// paths of the service's files are left out: they belong to the machine that
// built it.
func (p *Profile) Write(to io.Writer) error {
	raw := p.raw.Copy()
	for _, m := range raw.Mapping {
		m.File = filepath.Base(m.File)
	}
	return raw.Write(to)
}

// cpu is the time of a sample. The kernel's timer takes one for every 10 ms of
// CPU time: a profile of less than some seconds means little.
func (p *Profile) cpu(s *pprof.Sample) time.Duration {
	return time.Duration(s.Value[p.value]) * p.unit
}
