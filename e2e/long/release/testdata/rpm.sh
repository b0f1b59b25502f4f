#!/bin/bash
# rpm.sh OLD OLD_VERSION NEW NEW_VERSION installs a package, uses it, upgrades and removes it. Debian's rpm does not know that systemd is
# installed.
set -euxo pipefail
. "$(dirname "$0")/service.sh"

[ "$(rpm --query --requires --package "$1" | grep -v '^rpmlib\|^/bin/sh')" = systemd ]
rpm --nodeps --install "$1"
want_installed "$2"
use_service

rpm --nodeps --upgrade "$3" # while it serves
want_kept
stop
want_installed "$4"
start
want_kept
grep STEWARD_ROOT_KEY "$settings"
stop

rpm --erase steward 2>&1 | tee /dev/stderr | grep 'The data in /var/lib/steward'
[ ! -e /usr/bin/steward ]
[ -e "$settings.rpmsave" ]
[ -e /var/lib/steward/steward.db ]
