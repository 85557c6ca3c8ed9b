package load

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/lab/meter"
)

// thread tells the CPU time of a loop's thread to others, from when the loop began.
type thread struct {
	mu    sync.Mutex
	id    int           // 0: the loop has not begun, or has ended
	from  time.Duration // what the thread had used before
	spent time.Duration // by the whole loop, once it has ended
}

// begin is called by the loop, which is locked to its thread.
func (t *thread) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id = unix.Gettid()
	t.from = threadCPU(t.id)
}

// end is called by the loop before it leaves its thread, which others then use.
func (t *thread) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent, t.id = threadCPU(t.id)-t.from, 0
}

func (t *thread) cpu() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id == 0 {
		return t.spent
	}
	return threadCPU(t.id) - t.from
}

// threadCPU reads the CPU clock of a thread of this process, which must be there.
func threadCPU(id int) time.Duration {
	d, _ := meter.ThreadCPU(id)
	return d
}
