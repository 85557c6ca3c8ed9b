package demo

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// step is a part of the work, with a guess of how long it takes.
type step struct {
	name  string
	about time.Duration
}

// progress paints a line: once a second over itself on a terminal, every ten
// seconds and at every step below itself elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time

	mu      sync.Mutex
	todo    map[string]time.Duration // steps that have not begun
	name    string
	about   time.Duration
	stepped time.Time // the current step began
	done    float64   // of the current step; 0: not known

	over chan struct{}
	idle sync.WaitGroup
}

func newProgress(w io.Writer, steps []step) *progress {
	p := &progress{w: w, terminal: isTerminal(w), began: time.Now(), todo: map[string]time.Duration{}, over: make(chan struct{})}
	for _, s := range steps {
		p.todo[s.name] = s.about
	}
	every := 10 * time.Second
	if p.terminal {
		every = time.Second
	}
	p.idle.Add(1)
	go func() {
		defer p.idle.Done()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-p.over:
				return
			case <-ticker.C:
				p.mu.Lock()
				p.paint()
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS) //nolint:gosec // a descriptor
	return err == nil
}

// begin starts the next step; what it names is no longer to do.
func (p *progress) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.about, p.stepped, p.done = name, p.todo[name], time.Now(), 0
	delete(p.todo, name)
	p.paint()
}

// fraction tells how much of the current step is done.
func (p *progress) fraction(done float64) {
	p.mu.Lock()
	p.done = done
	p.mu.Unlock()
}

// stop paints no more and clears the line.
func (p *progress) stop() {
	close(p.over)
	p.idle.Wait()
	if p.terminal {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

func (p *progress) paint() {
	now := time.Now()
	line := fmt.Sprintf("%s elapsed, about %s remaining: %s", clock(now.Sub(p.began)), clock(p.remaining(now)), p.name)
	if p.done > 0 {
		line += fmt.Sprintf(" (%.0f%%)", 100*p.done)
	}
	if p.terminal {
		line = "\r\x1b[K" + line
	} else {
		line += "\n"
	}
	_, _ = io.WriteString(p.w, line) // nobody may be looking
}

// remaining is a guess: better where the current step says how far it is.
func (p *progress) remaining(now time.Time) time.Duration {
	spent := now.Sub(p.stepped)
	left := p.about - spent
	if p.done > 0.02 {
		left = time.Duration(float64(spent) * (1 - p.done) / p.done)
	}
	left = max(left, 0)
	for _, d := range p.todo {
		left += d
	}
	return left
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
