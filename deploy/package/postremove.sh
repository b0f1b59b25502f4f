#!/bin/sh
# Forgets the unit after the package was removed ("remove" and "purge" of dpkg, 0 of rpm), and says what stays.
set -e
case "$1" in
remove | purge | 0)
	[ ! -d /run/systemd/system ] || systemctl daemon-reload
	if [ "$1" != remove ] && [ -d /var/lib/steward ]; then
		echo "The data in /var/lib/steward and the user steward stay. Remove them by hand if they are not needed any more."
	fi
	;;
esac
