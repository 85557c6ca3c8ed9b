#!/bin/sh
# A user's walk on a fresh Debian 12 with systemd and an nginx, by the words of docs/install.md: installed, started,
# first trace; upgraded under load; removed. Run by `make test-install` in a machine of its own: it changes the system.
set -eu
[ -d /run/systemd/system ] || { echo "needs systemd, in a machine of its own: make test-install" >&2; exit 2; }
page=http://127.0.0.1:4680

say() { printf '%4d s  %s\n' $(($(date +%s) - begin)) "$*"; }
fail() {
	say "FAILED: $*"
	journalctl -b -o cat -u tare | tail -n 40
	exit 1
}
# within SECONDS WHAT COMMAND…: waits until the command succeeds.
within() {
	local end what
	end=$(($(date +%s) + $1)) what=$2
	shift 2
	until "$@"; do
		[ "$(date +%s)" -lt $end ] || fail "not within $(($(date +%s) - begin)) s: $what"
		sleep 0.2
	done
	say "$what"
}

# The service, which nobody will change or start again.
printf 'server { listen 80 default_server; location / { return 200 "ok\n"; } }\n' >/etc/nginx/sites-available/default
systemctl start nginx
systemctl reload nginx
nginx=$(systemctl show -p MainPID --value nginx)

begin=$(date +%s)
# The commands of the page, but that which builds.
sed -n '/^```sh elsewhere$/,/^```$/p' docs/install.md | sed '1d; /^```$/,$d; /^make dist$/d' >/tmp/commands
grep -q 'systemctl enable --now tare$' /tmp/commands || fail "docs/install.md has other commands than this test knows"
sh -eux /tmp/commands || fail "a command of docs/install.md failed"
say "installed and started"
# traced PATH: asks for it, and says whether such a request has a trace.
traced() {
	curl -s -o /dev/null "http://127.0.0.1$1"
	curl -s "$page/api/v1/traces?service=nginx&attr=url.path=$1&limit=1" | grep -q '"trace_id"'
}
within 300 "the first trace is on the page" traced /first
systemctl is-active --quiet tare || fail "tare.service does not run"

# A newer package, of the same program, comes while requests arrive.
mkdir /tmp/newer
for deb in dist/tare-agent_*_amd64.deb dist/tare_*_amd64.deb; do
	dpkg-deb -R "$deb" /tmp/newer/root
	sed -i 's/^Version: .*/&+newer/' /tmp/newer/root/DEBIAN/control
	dpkg-deb -Znone -b /tmp/newer/root "/tmp/newer/$(basename "$deb")" >/dev/null
	rm -rf /tmp/newer/root
done
before=$(systemctl show -p MainPID --value tare)
(
	n=0
	until [ -e /tmp/enough ]; do
		curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1/load/$n-[0-4]"
		n=$((n + 1))
		sleep 0.2
	done
) >/tmp/answers &
load=$!
within 60 "requests arrive" sh -c '[ "$(wc -l </tmp/answers)" -ge 50 ]'
sudo apt-get install -y /tmp/newer/*.deb >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; fail "the upgrade failed"; }
say "upgraded"
[ "$(systemctl show -p MainPID --value tare)" != "$before" ] || fail "the old program runs on"
during=$(wc -l </tmp/answers)
within 300 "a request after the upgrade has a trace" traced /after
within 60 "requests arrive after the upgrade" sh -c "[ \$(wc -l </tmp/answers) -ge $((during + 50)) ]"
touch /tmp/enough
wait $load
grep -qvx 200 /tmp/answers && fail "requests failed: $(sort /tmp/answers | uniq -c | tr '\n' ' ')"
say "all of $(wc -l </tmp/answers) requests were answered"

# Each request has one trace or none.
cat >/tmp/count.py <<'END'
import collections, json, sys, urllib.request
page, after, seen, failed = sys.argv[1], "", collections.Counter(), 0
while True:
    with urllib.request.urlopen(f"{page}/api/v1/traces?service=nginx&kind=server&limit=500&last=1h&after={after}" if after else f"{page}/api/v1/traces?service=nginx&kind=server&limit=500&last=1h") as answer:
        got = json.load(answer)
    ids = [t["trace_id"] for t in got["traces"]]
    for i in ids:
        with urllib.request.urlopen(f"{page}/api/v1/traces/{i}/otlp") as answer:
            for r in json.load(answer)["resourceSpans"]:
                for s in r["scopeSpans"]:
                    for span in s["spans"]:
                        for a in span["attributes"]:
                            if a["key"] == "url.path" and span["kind"] == 2:
                                seen[a["value"]["stringValue"]] += 1
    after = got.get("next", "")
    if not after:
        break
load = {path: n for path, n in seen.items() if path.startswith("/load/")}
twice = {path: n for path, n in load.items() if n > 1}
print(len(load), "of the requests have a trace")
if twice:
    sys.exit(f"{len(twice)} have several: {dict(list(twice.items())[:5])}")
END
python3 /tmp/count.py $page || fail "the old and the new agent traced the same requests"

sudo apt-get remove -y tare tare-agent >/tmp/remove.log 2>&1 || { cat /tmp/remove.log; fail "it cannot be removed"; }
if pgrep -x tare >/dev/null || systemctl is-active --quiet tare; then fail "it still runs"; fi
[ -e /etc/tare/agent.yaml ] && [ -d /var/lib/tare/store ] || fail "the configuration or the store is gone"
[ "$(systemctl show -p MainPID --value nginx)" = "$nginx" ] || fail "nginx was started again"
[ "$(curl -s http://127.0.0.1/after)" = ok ] || fail "nginx does not answer"
sudo apt-get purge -y tare tare-agent >/tmp/purge.log 2>&1 || { cat /tmp/purge.log; fail "it cannot be purged"; }
[ ! -e /etc/tare ] || fail "purging left $(ls -d /etc/tare/*)"
say "removed, and nginx runs as before"
