#!/bin/busybox sh
# The first process of a guest that counts instructions. All that runs is in its initial root file system, and nothing
# of it depends on time or on the host: so two runs are the same, instruction by instruction.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/

# argument NAME: its value on the kernel's command line.
argument() { sed -n "s/.*\bcount\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

fail() {
	echo "FAILED $*"
	[ -e /agent.log ] && sed 's/^/LOG /' /agent.log
	poweroff -f
}

# get URL: what it answers.
get() { wget -q -O - "http://127.0.0.1:$1"; }

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
ip link set lo up
ulimit -n 65536
echo 0 >/proc/sys/kernel/randomize_va_space
echo 0 >/proc/sys/kernel/kptr_restrict
echo 1 >/proc/sys/net/core/bpf_jit_kallsyms
for m in $(cat /modules/order); do insmod "/modules/$m" || fail "$m cannot be loaded"; done

if [ "$(argument symbols)" ]; then # of the kernel itself, and no more
	grep -E ' [tTwW] ' /proc/kallsyms | cut -d' ' -f1,3- >/dev/ttyS1
	poweroff -f
fi

nginx -c /etc/backend.conf &
nginx -c /etc/proxy.conf &
sink 4318 &
for i in $(seq 300); do
	[ "$(get 8080/)" ] && break
	sleep 0.1
done
[ "$(get 8080/)" ] || fail "nginx does not answer"

agent=$(argument agent | tr ',' ' ')
if [ "$agent" ]; then
	export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
	# shellcheck disable=SC2086 # several flags
	tare-agent --port proxy=8080 --port backend=8081 --kubernetes off $agent >/agent.log 2>&1 &
	for i in $(seq 600); do
		get 9464/healthz >/dev/null 2>&1 && break
		sleep 0.2
	done
	get 9464/healthz >/dev/null 2>&1 || fail "the agent does not trace"
	sleep 10 # what it does at its start is over
fi
grep -E '\[bpf\]' /proc/kallsyms | cut -d' ' -f1,3- >/dev/ttyS1
load 8080 "$(argument connections)" "$(argument warm)" "$(argument requests)" || fail "the load"
if [ "$agent" ]; then
	sleep 5 # until all is exported
	get 9464/metrics | sed -n 's/^tare_/METRIC tare_/p'
fi
echo "DONE $(uname -r)"
poweroff -f
