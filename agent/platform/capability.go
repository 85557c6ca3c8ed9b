package platform

import "golang.org/x/sys/unix"

// Capability is a privilege of the calling process.
type Capability struct {
	Name      string `json:"name"`
	Effective bool   `json:"effective"`
	Needed    string `json:"needed_for"`
}

var wanted = []struct {
	bit    uint
	name   string
	needed string
	must   bool // nothing is traced without it, or not all that the rules select
	start  bool // needed until the programs are loaded
}{
	{unix.CAP_BPF, "CAP_BPF", "loading programs and maps", true, false},
	{unix.CAP_PERFMON, "CAP_PERFMON", "tracing programs", true, false},
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "sock_ops programs and their attachment", true, false},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "other network namespaces; stands in for the three above", true, false},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "executables and sockets of other users' processes", true, false},
	{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "other users' processes, in /proc", true, false},
	{unix.CAP_SYS_NICE, "CAP_SYS_NICE", "records read in time where all CPUs are busy", false, false},
	{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", "maps on kernels that charge them to RLIMIT_MEMLOCK (before 5.11)", false, true},
}

// capabilities tells the effective ones; all false if the kernel does not say.
func capabilities() []Capability {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		data = [2]unix.CapUserData{}
	}
	list := make([]Capability, len(wanted))
	for i, w := range wanted {
		list[i] = Capability{w.name, data[w.bit/32].Effective&(1<<(w.bit%32)) != 0, w.needed}
	}
	return list
}

// Missing are the capabilities without which services would go untraced in silence, each
// with what it is for.
func Missing() []string { return missing(capabilities()) }

func missing(list []Capability) (names []string) {
	has := map[string]bool{}
	for _, c := range list {
		has[c.Name] = c.Effective
	}
	for _, w := range wanted {
		standsIn := has["CAP_SYS_ADMIN"] && (w.bit == unix.CAP_BPF || w.bit == unix.CAP_PERFMON || w.bit == unix.CAP_NET_ADMIN)
		if w.must && !has[w.name] && !standsIn {
			names = append(names, w.name+" ("+w.needed+")")
		}
	}
	return names
}

// Privileged reports whether this process may load kernel programs at all, as far as
// its capabilities tell.
func Privileged() bool { return privileged(capabilities()) }

func privileged(list []Capability) bool {
	has := map[string]bool{}
	for _, c := range list {
		has[c.Name] = c.Effective
	}
	return has["CAP_SYS_ADMIN"] || has["CAP_BPF"] && has["CAP_PERFMON"] && has["CAP_NET_ADMIN"]
}
