#!/bin/bash
# deb.sh OLD OLD_VERSION NEW NEW_VERSION installs a package, uses it, upgrades, removes and purges it.
set -euxo pipefail
. "$(dirname "$0")/service.sh"

dpkg --install "$1"
want_installed "$2"
use_service

dpkg --install "$3" # while it serves
want_kept
stop
want_installed "$4"
start
want_kept
grep STEWARD_ROOT_KEY "$settings" # what was configured stays
stop

dpkg --remove steward
[ ! -e /usr/bin/steward ]
[ -e "$settings" ]
[ -e /var/lib/steward/steward.db ]

dpkg --install "$3"
start
want_kept
stop

dpkg --purge steward 2>&1 | tee /dev/stderr | grep 'The data in /var/lib/steward'
[ ! -e /etc/steward ]
[ -e /var/lib/steward/steward.db ]
[ -z "$(dpkg --audit steward 2>/dev/null)" ]
