package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryOf(t *testing.T) {
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1     = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		hybrid = v1 + "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		inside = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n" // in the host's cgroup namespace
	)
	for _, c := range []struct {
		name, mounts, groups string
		files                map[string]string
		want                 Memory
		fails                bool
	}{
		{"v2", v2, "0::/system.slice/tare-agent.service\n", map[string]string{
			"/sys/fs/cgroup/system.slice/tare-agent.service/memory.max":  "134217728\n",
			"/sys/fs/cgroup/system.slice/tare-agent.service/memory.stat": "anon 4096\nkernel 46000000\nkernel_stack 1\n",
			"/sys/fs/cgroup/system.slice/memory.max":                     "max\n",
		}, Memory{134217728, 46000000}, false},
		{"v2, less above", v2, "0::/pod/agent\n", map[string]string{
			"/sys/fs/cgroup/pod/agent/memory.max": "max\n", "/sys/fs/cgroup/pod/agent/memory.stat": "kernel 1\n",
			"/sys/fs/cgroup/pod/memory.max": "1000\n",
		}, Memory{1000, 1}, false},
		{"v2, none", v2, "0::/a\n", map[string]string{
			"/sys/fs/cgroup/a/memory.max": "max\n", "/sys/fs/cgroup/a/memory.stat": "kernel 7\n",
		}, Memory{0, 7}, false},
		{"v2, the root has no limit", v2, "0::/\n", map[string]string{"/sys/fs/cgroup/memory.stat": "kernel 7\n"}, Memory{0, 7}, false},
		{"v2, a part is mounted", inside, "0::/docker/abc\n", map[string]string{
			"/sys/fs/cgroup/memory.max": "5\n", "/sys/fs/cgroup/memory.stat": "kernel 2\n",
		}, Memory{5, 2}, false},
		{"v1", v1, "5:cpu:/x\n4:memory:/a/b\n0::/z\n", map[string]string{
			"/sys/fs/cgroup/memory/a/b/memory.stat":                "cache 4096\nhierarchical_memory_limit 123\n",
			"/sys/fs/cgroup/memory/a/b/memory.kmem.usage_in_bytes": "45\n",
		}, Memory{123, 45}, false},
		{"v1, none", hybrid, "4:memory:/\n0::/\n", map[string]string{
			"/sys/fs/cgroup/memory/memory.stat":                "hierarchical_memory_limit 9223372036854771712\n",
			"/sys/fs/cgroup/memory/memory.kmem.usage_in_bytes": "45\n",
		}, Memory{0, 45}, false},
		{"no controller", "", "0::/\n", nil, Memory{}, false},
		{"no number", v2, "0::/a\n", map[string]string{
			"/sys/fs/cgroup/a/memory.max": "much\n", "/sys/fs/cgroup/a/memory.stat": "kernel 7\n",
		}, Memory{0, 7}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := memoryOf(root, c.mounts, c.groups)
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
