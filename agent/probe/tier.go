package probe

// Tier is a set of kernel hooks that the agent can work with.
type Tier struct {
	Name    string   `json:"name"` // "tracepoint" or "none"
	Missing []string `json:"missing,omitempty"`
	Unknown []string `json:"unknown,omitempty"` // could not be tried
}

// The tiers that there are.
const (
	Tracepoint = "tracepoint"
	NoTier     = "none"
)

// needs are the features that the tracepoint tier cannot do without. What it
// uses but can miss (reading payload, arming old connections, statistics) is
// not here.
var needs = []string{
	"btf",
	"tp_btf/tcp_rcv_space_adjust", "tp_btf/tcp_sendmsg_locked", "tp_btf/tcp_destroy_sock",
	"tp_btf/sched_process_fork", "tp_btf/sched_process_exec", "tp_btf/sched_process_exit",
	"sock_ops", "sock_ops header options", "cgroup attach",
	"sk_storage in tp_btf", "sk_storage in sock_ops", "task_storage in tp_btf", "task_storage in sock_ops",
	"ringbuf", "lpm_trie", "bounded loops", "read kernel memory",
}

// Choose picks the best tier of which every part is there. A feature that
// could not be tried counts as absent: the agent could not use it either.
func Choose(r *Report) Tier {
	t := Tier{Name: Tracepoint}
	for _, name := range needs {
		switch r.Feature(name).State {
		case Yes:
		case Unknown:
			t.Unknown = append(t.Unknown, name)
		default:
			t.Missing = append(t.Missing, name)
		}
	}
	if len(t.Missing)+len(t.Unknown) > 0 {
		t.Name = NoTier
	}
	return t
}
