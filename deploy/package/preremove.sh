#!/bin/sh
# Stops the service when the package is removed ("remove" of dpkg, 0 of rpm), not when it is replaced.
# The data and the user stay.
set -e
case "$1" in
remove | 0)
	[ ! -d /run/systemd/system ] || systemctl disable --now steward.service
	;;
esac
