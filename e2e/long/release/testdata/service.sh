# Functions of the tests of packages. They do what systemd does with the unit: this machine may have no systemd that runs.
unit=/usr/lib/systemd/system/steward.service
settings=/etc/steward/steward.env

# as_service runs a command with the user and the environment of the unit.
as_service() {
	local environment=()
	mapfile -t environment < <(sed -n 's/^Environment=//p' "$unit"; grep -v '^#' "$settings" || true)
	runuser -u "$(sed -n 's/^User=//p' "$unit")" -- env "${environment[@]}" "$@"
}

start() {
	install -d -m 0700 -o steward -g steward /var/lib/steward
	local command
	command=$(sed -n 's/^ExecStart=//p' "$unit")
	as_service $command >/tmp/steward.txt 2>/tmp/steward.log &
	server=$!
	command=$(sed -n 's/^ExecStartPost=//p' "$unit")
	as_service $command || { cat /tmp/steward.log; return 1; }
}

stop() {
	kill "$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' /var/lib/steward/steward.json)"
	wait "$server" || true
	! as_service steward health
}

api() { curl --fail --silent --show-error -H 'Authorization: Bearer root-key-of-the-package-test' -H 'Content-Type: application/json' "$@"; }

# use_service configures the service and stores something.
use_service() {
	echo STEWARD_ROOT_KEY=root-key-of-the-package-test >>"$settings"
	start
	api http://127.0.0.1:8080/webhook/create -d '{"name": "kept"}'
}

# want_kept checks what was stored.
want_kept() { api http://127.0.0.1:8080/webhook/list | grep '"kept"'; }

# want_installed checks what a package installs, and its version.
want_installed() {
	[ "$(steward --version)" = "steward $1" ]
	getent passwd steward | grep :/var/lib/steward:
	[ "$(stat -c '%a %U' "$settings")" = "600 root" ]
	systemd-analyze verify "$unit"
	grep -q Apache /usr/share/doc/steward/copyright
}
