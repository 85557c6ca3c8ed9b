#!/bin/sh
# Of Debian packages ("configure", and the version before) and of RPM's (1 at first, then 2).
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1 $2" in
"configure " | "1 ") echo "say in /etc/tare/agent.yaml what is traced, then: systemctl enable --now ${UNITS%% *}" ;;
*) systemctl try-restart $UNITS ;; # what runs is the new version from then on; the old agent has ended before the new one begins
esac
