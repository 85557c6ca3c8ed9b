package runtime

import (
	"os/exec"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/golang"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
)

// BenchmarkFirst recognises and reads processes as the agent does when it starts: each for the first time.
func BenchmarkFirst(b *testing.B) {
	for name, args := range map[string][]string{
		"go":     {"/proc/self/exe"},
		"python": {"python3", "-c", "print('ready', flush=True); import sys; sys.stdin.read()"},
		"node":   {"node", "-e", "console.log('ready'); process.stdin.resume()"},
		"java":   {"java", "jvm/testdata/Threads.java", "0"},
		"sleep":  {"sh", "-c", "echo ready; exec cat"},
	} {
		b.Run(name, func(b *testing.B) {
			cmd := exec.Command(args[0], args[1:]...)
			if name == "go" {
				cmd.Env = append(cmd.Environ(), goServerEnv+"=1")
			}
			c := nativetest.Start(b, cmd)
			c.Ready(b)
			m := fakeMaps{}
			b.ReportAllocs()
			start := uint64(0)
			for b.Loop() {
				start++ // another process each time
				p := &Process{PID: c.PID, StartTime: start, Exe: cmd.Path, Dir: c.Dir}
				goPrograms.reader = *new(golang.Reader)
				r := new(Detector).Detect(p)
				if r.Look != nil {
					_ = r.Look(p, m)
				}
				_, _ = LookPublished(p, m)
			}
		})
	}
}
