#!/bin/sh
# Creates the user of the service. A service that runs goes on with the new binary.
set -e
systemd-sysusers steward.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart steward.service
fi
