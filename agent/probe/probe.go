// Package probe finds out what this kernel and these privileges allow, by
// trying: it loads tiny programs of every kind that the agent uses, runs the
// one whose answer only a run can tell, attaches one to a cgroup, and undoes
// all of it before it returns (RLIMIT_MEMLOCK stays lifted on kernels that
// still charge maps to it, as the agent needs it).
//
// It decides nothing by the kernel's version, which it only reports. It
// touches no socket but its own. What it cannot try for lack of privileges it
// reports as unknown, never as missing.
package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
)

// State is what is known of a feature.
type State string

// Unknown means that it could not be tried with these privileges.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// Result tells of one feature.
type Result struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	State   State  `json:"state"`
	Error   string `json:"error,omitempty"`
	Needed  string `json:"needed_for"`
	Without string `json:"without"`
}

// Report is all that was found out.
type Report struct {
	Kernel       string            `json:"kernel"` // release, for information
	Machine      string            `json:"machine"`
	Lockdown     string            `json:"lockdown"` // none, integrity, confidentiality, unknown
	CgroupV2     string            `json:"cgroup_v2"`
	Sysctls      map[string]string `json:"sysctls"`
	Capabilities []Capability      `json:"capabilities"`
	Features     []Result          `json:"features"`
}

// Feature finds a result by name; the zero Result has no State.
func (r *Report) Feature(name string) Result {
	for _, f := range r.Features {
		if f.Name == name {
			return f
		}
	}
	return Result{}
}

// Privileged reports whether kernel programs may be loaded at all, as far as
// capabilities tell.
func (r *Report) Privileged() bool {
	has := map[string]bool{}
	for _, c := range r.Capabilities {
		has[c.Name] = c.Effective
	}
	return has["CAP_SYS_ADMIN"] || has["CAP_BPF"] && has["CAP_PERFMON"] && has["CAP_NET_ADMIN"]
}

// Run tries everything. It takes some hundred milliseconds, most of them to
// read the kernel's type information.
func Run() Report {
	r := Report{
		Lockdown:     lockdown(),
		Sysctls:      map[string]string{},
		Capabilities: capabilities(),
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		r.Kernel = unix.ByteSliceToString(uts.Release[:])
		r.Machine = unix.ByteSliceToString(uts.Machine[:])
	}
	for _, name := range []string{"kernel/unprivileged_bpf_disabled", "kernel/bpf_stats_enabled", "net/core/bpf_jit_enable"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		value := strings.TrimSpace(string(text))
		if err != nil {
			value = "unknown"
		}
		r.Sysctls[strings.ReplaceAll(name, "/", ".")] = value
	}
	var mountErr error
	r.CgroupV2, mountErr = CgroupV2()

	_ = rlimit.RemoveMemlock() // only old kernels need it, and then the maps below tell

	m := newMaps()
	defer m.close()
	privileged := r.Privileged()
	others := attempts(m, r.CgroupV2, mountErr)
	for _, f := range tier.Features() {
		err := attempt(f, others)
		res := Result{Name: f.Name, State: stateOf(err, privileged), Needed: f.Needed, Without: f.Without}
		res.OK = res.State == Yes
		switch {
		case res.State == Unknown && !privileged && !errors.Is(err, errUnknown):
			res.Error = "not tried: needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
		case err != nil:
			res.Error = brief(err)
		}
		r.Features = append(r.Features, res)
	}
	return r
}

// stateOf reads an error. While the privileges to try are missing, every error
// but a plain absence may come of that alone.
func stateOf(err error, privileged bool) State {
	switch {
	case err == nil:
		return Yes
	case errors.Is(err, errAbsent):
		return No
	case errors.Is(err, errUnknown) || !privileged:
		return Unknown
	}
	return No
}

var (
	errUnknown = errors.New("cannot be told")
	errAbsent  = errors.New("not there")
)

// brief is an error on one line: of a verifier's log, the last line that says
// something.
func brief(err error) string {
	var v *ebpf.VerifierError
	if errors.As(err, &v) {
		for i := len(v.Log) - 1; i >= 0; i-- {
			line := strings.TrimSpace(v.Log[i])
			if line != "" && !strings.HasPrefix(line, "processed ") {
				return fmt.Sprintf("%v: %s", v.Cause, line)
			}
		}
		return v.Cause.Error()
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	// cilium/ebpf guesses at the reason of every EPERM; the limit was raised.
	line, _, _ = strings.Cut(line, " (MEMLOCK may be too low")
	return line
}
