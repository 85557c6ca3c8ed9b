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
}{
	{unix.CAP_BPF, "CAP_BPF", "loading programs and maps"},
	{unix.CAP_PERFMON, "CAP_PERFMON", "tracing programs"},
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "sock_ops programs and their attachment"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "other network namespaces; stands in for the three above"},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "executables and sockets of other users' processes"},
	{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "other users' processes, in /proc"},
	{unix.CAP_SYS_NICE, "CAP_SYS_NICE", "records read in time where all CPUs are busy"},
	{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", "maps on kernels that charge them to RLIMIT_MEMLOCK (before 5.11)"},
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
