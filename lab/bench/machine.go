package bench

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/lab/record"
)

// describe reads what this machine is; what cannot be read stays empty.
func describe() record.Machine {
	m := record.Machine{CPUs: runtime.NumCPU(), Arch: runtime.GOARCH, Kernel: "unknown"}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	info := keyValues("/proc/cpuinfo", ":")
	m.Model = info["model name"]
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(keyValues("/proc/meminfo", ":")["MemTotal"], " kB"), 64); err == nil {
		m.MemGiB = kb / (1 << 20)
	}
	m.Distro = strings.Trim(keyValues("/etc/os-release", "=")["PRETTY_NAME"], `"`)
	if strings.Contains(" "+info["flags"]+" ", " hypervisor ") {
		m.Virtual = "unnamed hypervisor"
		if b, err := os.ReadFile("/sys/class/dmi/id/sys_vendor"); err == nil {
			m.Virtual = strings.TrimSpace(string(b))
		}
	}
	return m
}

// keyValues reads lines of a key, a separator and a value; the first of equal
// keys counts.
func keyValues(path, separator string) map[string]string {
	out := map[string]string{}
	b, err := os.ReadFile(path)
	if err != nil {
		return out
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		k, v, ok := strings.Cut(lines.Text(), separator)
		if k = strings.TrimSpace(k); ok && out[k] == "" {
			out[k] = strings.TrimSpace(v)
		}
	}
	return out
}
