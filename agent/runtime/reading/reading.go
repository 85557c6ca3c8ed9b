// Package reading bounds what the agent reads of traced processes. The code in one
// decides what is in its memory, its executable and the files that it maps, how many
// mappings it has, and whether a file answers at all.
//
// Each process has one account of bytes and of work, which all its readers share: of its
// runtime, its tables, its SDK. One process is read at a time, for a limited time. When the
// account is spent, nothing more of the process is read until it is refilled: its runtime is
// not known, and that is counted. A container has an account too, since it may start any
// number of processes.
package reading

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// What may be read of one process, before anything is refilled. A service in Go of 200 MB
// takes some 50 MB and a million steps, once; a JVM some 10 MB, four times.
const (
	Bytes = 256 << 20 // from files and memory
	Work  = 16 << 20  // steps of some 20 ns each, in what was read
)

const (
	refill      = 10 * time.Minute // in which an empty account is full again
	enough      = 4                // a quarter of it must be there after it was empty
	patience    = 5 * time.Second  // for one reading
	maxStuck    = 8                // readings that do not return
	maxAccounts = 1 << 14
	crowd       = 32 // accounts of processes that a container has, with all of its processes
	callWork    = 16 // of a system call, or of the kernel for a line of a text
)

// Limit is an error: why no more of a process is read.
type Limit string

// The limits, by their names in metrics.
const (
	TooManyBytes Limit = "bytes"
	TooMuchWork  Limit = "work"
	Shape        Limit = "shape"     // more mappings, sections or libraries than are kept
	Stuck        Limit = "stuck"     // a file or memory that does not answer: of FUSE, or on a network
	Busy         Limit = "busy"      // too many other processes are stuck
	Container    Limit = "container" // its processes were read as far as all of them are
)

// Limits are all of them.
var Limits = []Limit{TooManyBytes, TooMuchWork, Shape, Stuck, Busy, Container}

var texts = map[Limit]string{
	TooManyBytes: "its files and its memory are more to read than the agent reads of one process",
	TooMuchWork:  "its files and its memory take more work than the agent does for one process",
	Shape:        "it has more mappings, libraries or sections than the agent reads of one process",
	Stuck:        "its files or its memory do not answer",
	Busy:         "too many other processes have files that do not answer",
	Container:    "the processes of its container are more to read than the agent reads of one container",
}

// Error says it in words.
func (l Limit) Error() string { return texts[l] }

// Account is what may still be read of a process. It is for one goroutine at a time. What
// reads checks what the methods return, and ends: then Err says why.
type Account struct {
	bytes, work int64
	limit       Limit
	filled      time.Time
	stuck       bool // a reading has not returned
}

// New is a full account.
func New() *Account { return &Account{bytes: Bytes, work: Work, filled: time.Now()} }

// Read takes n bytes that are about to be read, and the work for that; false if there is not as much left.
func (a *Account) Read(n int) bool {
	a.bytes -= int64(n)
	if a.bytes < 0 && a.limit == "" {
		a.limit = TooManyBytes
	}
	return a.Work(callWork)
}

// Work takes n steps; false if nothing more is to be done.
func (a *Account) Work(n int) bool {
	a.work -= int64(n)
	if a.work < 0 && a.limit == "" {
		a.limit = TooMuchWork
	}
	return a.limit == ""
}

// Exceed says that the process has more of something than is read.
func (a *Account) Exceed() {
	if a.limit == "" {
		a.limit = Shape
	}
}

// Err is the Limit that was reached; nil if none was.
func (a *Account) Err() error {
	if a.limit == "" {
		return nil
	}
	return a.limit
}

// Of is a reader whose bytes are taken from the account.
func (a *Account) Of(r io.ReaderAt) io.ReaderAt { return charged{a, r} }

type charged struct {
	*Account
	r io.ReaderAt
}

func (c charged) ReadAt(b []byte, off int64) (int, error) {
	if !c.Read(len(b)) {
		return 0, c.limit
	}
	return c.r.ReadAt(b, off)
}

// open refills an account that has room for so many processes, and reports whether there is
// enough for a reading.
func (a *Account) open(now time.Time, processes int64) error {
	bytes, work := processes*Bytes, processes*Work
	if passed := now.Sub(a.filled); passed > 0 {
		share := min(float64(passed)/float64(refill), 1)
		a.bytes = min(max(a.bytes, 0)+int64(share*float64(bytes)), bytes)
		a.work = min(max(a.work, 0)+int64(share*float64(work)), work)
	}
	a.filled = now
	if a.limit == Shape || a.bytes >= bytes/enough && a.work >= work/enough {
		a.limit = ""
	}
	return a.Err()
}

// ID names a process until the host is rebooted.
type ID struct {
	PID       int
	StartTime uint64 // clock ticks after boot
}

var (
	turn     = make(chan struct{}, 1) // of who reads, and uses what follows
	accounts = map[ID]*Account{}
	groups   = map[string]*Account{} // of containers
	stuck    atomic.Int32
	counted  [6]atomic.Uint64 // as Limits
)

// Unread is how often a process was not read, or not to the end, by the limit.
func Unread(l Limit) uint64 {
	for i, have := range Limits {
		if have == l {
			return counted[i].Load()
		}
	}
	return 0
}

// Count counts that a process was not read, or not to the end.
func Count(l Limit) {
	for i, have := range Limits {
		if have == l {
			counted[i].Add(1)
		}
	}
}

// Do reads a process: f is called when no other process is read. Where f cannot read because
// of a Limit, or does not return in time, that is Do's error, and the value is zero. f may go
// on then, so what it writes to belongs to it alone. What is read counts for the container of
// the process, too, or for whatever the group names; "" for none.
func Do[T any](id ID, group string, f func(*Account) (T, error)) (value T, err error) {
	defer func() {
		if l := Limit(""); errors.As(err, &l) {
			Count(l)
		}
	}()
	turn <- struct{}{}
	defer func() { <-turn }()
	a, of := account(accounts, id, 1), account(groups, group, crowd)
	now := time.Now()
	switch {
	case a.stuck:
		return value, Stuck
	case stuck.Load() >= maxStuck:
		return value, Busy
	}
	if err := a.open(now, 1); err != nil {
		return value, err
	}
	if of.open(now, crowd) != nil && group != "" {
		return value, Container
	}
	bytes, work := a.bytes, a.work
	spent := func() {
		of.Work(int(work - a.work))
		if of.bytes -= bytes - a.bytes; of.bytes < 0 {
			of.limit = TooManyBytes
		}
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	var state atomic.Int32 // 1: it has returned, 2: nobody waits for it any more
	go func() {
		v, err := f(a)
		if limit := a.Err(); limit != nil {
			v, err = *new(T), limit
		}
		done <- result{v, err}
		if !state.CompareAndSwap(0, 1) {
			turn <- struct{}{}
			spent()
			a.stuck = false
			<-turn
			stuck.Add(-1)
		}
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		spent()
		return r.value, r.err
	case <-late.C:
	}
	if !state.CompareAndSwap(0, 2) { // just now
		r := <-done
		spent()
		return r.value, r.err
	}
	a.stuck = true
	stuck.Add(1)
	return value, Stuck
}

// account is one of those of processes or of containers.
func account[K comparable](in map[K]*Account, of K, processes int64) *Account {
	a := in[of]
	if a == nil {
		if len(in) >= maxAccounts {
			forget(in)
		}
		a = &Account{bytes: processes * Bytes, work: processes * Work, filled: time.Now()}
		in[of] = a
	}
	return a
}

// forget drops the accounts that are full again by now; all but half of them, and the stuck
// ones, if too many are left.
func forget[K comparable](in map[K]*Account) {
	kept, now := 0, time.Now()
	for of, a := range in {
		if a.stuck {
			continue
		}
		if now.Sub(a.filled) >= refill || kept >= maxAccounts/2 {
			delete(in, of)
		} else {
			kept++
		}
	}
}
