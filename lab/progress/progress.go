// Package progress shows the progress of long work on standard error: the
// current step, the time elapsed and an estimate of the time that remains. It
// refuses to flood the output: one line that is overwritten on a terminal, few
// lines elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Step is a part of the work, with a guess of how long it takes on a usual machine:
// what the steps before took corrects the guesses for those to come. Names of steps
// are unique.
type Step struct {
	Name  string
	About time.Duration
}

// Line shows the progress in a line. On a terminal the line is overwritten once
// a second; elsewhere a new line is written every ten seconds and at every
// step.
type Line struct {
	w        io.Writer
	terminal bool
	began    time.Time

	mu      sync.Mutex
	todo    map[string]time.Duration // steps that have not begun
	later   time.Duration            // the sum of todo
	name    string
	about   time.Duration
	stepped time.Time // the current step began
	done    float64   // of the current step; 0: not known

	guessed, took time.Duration // by the steps that have ended

	over chan struct{}
	idle sync.WaitGroup
}

// New starts to show the progress of the steps, until Stop.
func New(w io.Writer, steps []Step) *Line {
	if around, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = around.Unwrap() // it would make the progress's own controls visible
	}
	p := &Line{w: w, terminal: isTerminal(w), began: time.Now(), todo: map[string]time.Duration{}, over: make(chan struct{})}
	for _, s := range steps {
		p.todo[s.Name] = s.About
		p.later += s.About
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

// Begin starts the step of this name, which from then on does not count as
// remaining.
func (p *Line) Begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		p.guessed += p.about
		p.took += time.Since(p.stepped)
	}
	p.name, p.about, p.stepped, p.done = name, p.todo[name], time.Now(), 0
	p.later -= p.todo[name]
	delete(p.todo, name)
	p.paint()
}

// Say writes a line above the progress.
func (p *Line) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// Fraction tells how much of the current step is done.
func (p *Line) Fraction(done float64) {
	p.mu.Lock()
	p.done = done
	p.mu.Unlock()
}

// Stop ends the progress and clears the line.
func (p *Line) Stop() {
	close(p.over)
	p.idle.Wait()
	if p.terminal {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

func (p *Line) paint() {
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

// firm is how much of guessed time must have passed for what it took to count as
// much as the guess: one short step says little of the others.
const firm = 10 * time.Second

// remaining is a guess: better where the current step says how far it is.
func (p *Line) remaining(now time.Time) time.Duration {
	slower := float64(p.took+firm) / float64(p.guessed+firm)
	spent := now.Sub(p.stepped)
	left := time.Duration(slower*float64(p.about)) - spent
	if p.done > 0.02 {
		left = time.Duration(float64(spent) * (1 - p.done) / p.done)
	}
	return max(left, 0) + time.Duration(slower*float64(p.later))
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
