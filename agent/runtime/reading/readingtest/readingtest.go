// Package readingtest measures what readers of hostile files hold in memory.
package readingtest

import (
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// Limit is how many bytes more than before a reader may hold, whatever it reads.
const Limit = 8 << 20

// live are the bytes of objects that the last collection found in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Live runs f while the heap is collected again and again, and reports an error if more than
// Limit bytes beyond what was there before were in use at once. It returns the most that were.
func Live(t testing.TB, f func()) (most uint64) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(1)) // what is allocated in large pieces is collected at once, too
	runtime.GC()
	before := live()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			runtime.GC()
			most = max(most, live())
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	f()
	close(done)
	<-ended
	if most -= min(before, most); most > Limit {
		t.Errorf("%d bytes were held at once, more than %d", most, Limit)
	}
	return most
}

// Endless is a file, or memory, that repeats itself without end.
type Endless []byte

// ReadAt fills all of b.
func (e Endless) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, io.EOF
	}
	for n := copy(b, e[off%int64(len(e)):]); n < len(b); n += copy(b[n:], e) {
	}
	return len(b), nil
}
