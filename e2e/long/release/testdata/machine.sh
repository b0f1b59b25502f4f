#!/bin/bash
# machine.sh DIR COMMAND… runs a command on a copy of this machine: an overlay of its root, with processes and a loopback of its own.
# Nothing of it is left afterwards. DIR is at /mnt there.
set -euo pipefail
if [ "${1-}" != --inside ]; then
	exec unshare --mount --pid --fork --kill-child --net --uts "$0" --inside "$@"
fi
dir=$2
shift 2
root=$(mktemp -d)/root # the caller removes TMPDIR
mount -t tmpfs tmpfs "${root%/root}"
mkdir "$root" "${root%/root}/upper" "${root%/root}/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=${root%/root}/upper,workdir=${root%/root}/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$dir" "$root/mnt"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
ip link set lo up
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
