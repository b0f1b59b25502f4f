#!/bin/sh
# Stops the service when the package is removed ("remove" of dpkg, 0 of rpm), not when it is replaced.
# The data and the user stay.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now steward.service
	else
		systemctl --root=/ disable steward.service
	fi
	;;
esac
