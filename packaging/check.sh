#!/usr/bin/env bash
# Builds the agent's packages for this architecture twice and looks at them: the same bytes, linked statically, small enough,
# complete. That the agent runs under its unit is a test of the module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
arch=$(go env GOARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for n in 1 2; do PACKAGES=tare-agent packaging/build.sh "$work/$n" "$arch"; done
diff "$work"/{1,2}/SHA256SUMS || { echo "two builds of one commit differ" >&2; exit 1; }
(cd "$work/1" && sha256sum --quiet -c SHA256SUMS)

root=$work/root
dpkg-deb --info "$work"/1/*.deb
dpkg-deb --extract "$work"/1/*.deb "$root"
agent=$root/usr/bin/tare-agent
if readelf -d "$agent" | grep NEEDED; then
	echo "the agent needs libraries" >&2
	exit 1
fi
bytes=$(stat -c %s "$agent")
((bytes <= 20 << 20)) || { echo "the agent has $bytes bytes, more than 20 MiB" >&2; exit 1; }
for f in etc/tare/agent.yaml etc/default/tare usr/lib/systemd/system/tare-agent.service usr/share/man/man1/tare-agent.1.gz \
	usr/share/bash-completion/completions/tare-agent usr/share/doc/tare-agent/{copyright,NOTICE,licences.txt,sbom.cdx.json,agent.example.yaml}; do
	[[ -s $root/$f ]] || { echo "the package has no $f" >&2; exit 1; }
done
for u in packaging/systemd/*.service; do # with programs that are there
	sed "s|^ExecStart=/usr/bin/tare[^ ]*|ExecStart=$agent|" "$u" >"$work/${u##*/}"
	systemd-analyze verify --man=no "$work/${u##*/}"
done
"$agent" version
echo "the agent has $((bytes / 1024)) KiB"
