#!/bin/sh
# Of Debian packages ("remove", or "upgrade") and of RPM's (0, or 1 before an upgrade).
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove | 0) systemctl disable --now $UNITS ;;
esac
