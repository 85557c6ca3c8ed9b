#!/bin/busybox sh
# The first process of a guest. Its root file system is a tmpfs above one that it
# shares with the host, so it may write anywhere, and all of it is lost but /out.
/bin/busybox --install -s /bin
export PATH=/bin

fail() {
	echo "guest: $*"
	poweroff -f
}

# argument NAME: its value on the kernel's command line.
argument() { sed -n "s/.*\btare\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# share TAG DIRECTORY OPTIONS: mounts what the host shares.
share() {
	mkdir -p "$2"
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || fail "the host's $1 cannot be mounted"
}

# writable LOWER DIRECTORY: mounts LOWER there, with what is written above it.
writable() {
	mkdir -p "/upper$2/files" "/upper$2/work" "$2"
	mount -t overlay -o "lowerdir=$1,upperdir=/upper$2/files,workdir=/upper$2/work" overlay "$2" || fail "no overlay at $2"
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for m in $(cat /modules/order); do insmod "/modules/$m" || fail "$m cannot be loaded"; done
date -s "@$(argument clock)" >/dev/null

mkdir -p /upper
mount -t tmpfs -o size=75% tmpfs /upper
share root /lower/root ro,cache=loose
share tree /lower/tree ro,cache=loose
share modules /lower/modules ro,cache=loose
share out /lower/out cache=none
tree=$(argument tree)
writable /lower/root /root
writable /lower/tree "/root$tree"
mount --bind "/root$tree/$(argument bin)" "/root$tree/bin" || fail "there are no binaries for it"
mkdir -p /root/out /root/lib/modules
mount --bind /lower/out /root/out
mount --bind /lower/modules /root/lib/modules
for d in run tmp dev/pts dev/shm; do mkdir -p "/root/$d"; done
mount -t tmpfs tmpfs /root/run
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs devtmpfs /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
ln -sf /proc/self/fd /root/dev/fd
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
mount -t bpf bpf /root/sys/fs/bpf
mount -t securityfs securityfs /root/sys/kernel/security
mount -t tracefs tracefs /root/sys/kernel/tracing

# The kernel asks for modules here, in its first root.
printf '#!/bin/busybox sh\nexec /bin/chroot /root /sbin/modprobe "$@"\n' >/bin/load
chmod +x /bin/load
echo /bin/load >/proc/sys/kernel/modprobe
ip link set lo up
hostname guest

if [ "$(argument init)" = systemd ]; then # the command is a service of it
	echo /sbin/modprobe >/proc/sys/kernel/modprobe
	mkdir -p /root/etc/systemd/system/multi-user.target.wants
	cat >/root/etc/systemd/system/guest.service <<-END
		[Unit]
		After=multi-user.target
		[Service]
		Type=oneshot
		WorkingDirectory=$tree
		Environment=HOME=/root TERM=dumb
		ExecStart=/bin/sh -c '/bin/sh -c ". /out/command" </dev/null >"\$(echo /dev/vport*)" 2>&1; echo \$? >/out/status'
		ExecStopPost=/bin/sh -c 'dmesg >/out/dmesg; sync; systemctl --force --force poweroff'
	END
	ln -s ../guest.service /root/etc/systemd/system/multi-user.target.wants/guest.service
	exec switch_root /root /sbin/init
fi

chroot /root /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/bin/sh -c "cd '$tree' && . /out/command" </dev/null >"$(echo /dev/vport*)" 2>&1
echo $? >/lower/out/status
dmesg >/lower/out/dmesg
sync
poweroff -f
