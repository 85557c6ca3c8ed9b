package meter

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process gets the pid of one that ended within the window: it must not be
// taken for it.
func TestPIDThatIsUsedAgain(t *testing.T) {
	const lastPID = "/proc/sys/kernel/ns_last_pid" // the next process gets the pid after it
	if f, err := os.OpenFile(lastPID, os.O_WRONLY, 0); err != nil {
		t.Skipf("needs root and CONFIG_CHECKPOINT_RESTORE: %v", err)
	} else {
		f.Close() //nolint:errcheck // nothing was written
	}
	for range 50 { // others start processes, too
		var p pidList
		a := startSubject(t)
		a.do("burn", 60) // before the window
		pid := a.pid()
		p.set(pid)
		s := begin(t, Subjects{Groups: map[string]func() []int{"it": p.now}})
		a.do("burn", 10)
		a.wait()
		require.NoError(t, os.WriteFile(lastPID, []byte(strconv.Itoa(pid-1)), 0))
		b := startSubject(t)
		if b.pid() == pid {
			b.do("burn", 30)
		}
		u := end(t, s)
		if b.pid() != pid {
			continue
		}
		g := u.Groups["it"]
		if g.Vanished != 1 || g.Processes != 1 || g.CPU < cpuOf(t, b)/2 || g.CPU > cpuOf(t, b) {
			t.Errorf("%+v", g)
		}
		return
	}
	t.Skip("others always took the pid first")
}
