#!/bin/sh
# Installs, runs and purges a package in a clean system: deploy/debian/try.sh DEB. As root; needs mmdebstrap.
set -eu

deb=${1:?DEB}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mmdebstrap --quiet --variant=minbase --mode=root "${DEBIAN_RELEASE:-bookworm}" "$root"
chmod 0755 "$work"
cp "$deb" "$root/tmp/linkerd-proxy.deb"

inside() {
    chroot "$root" env LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}
# Files, and the users; dpkg and the user tools write logs and copies of their own.
listed() {
    (cd "$root" && find . -xdev ! -path './proc/*' ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './etc/*-' | LC_ALL=C sort)
    cat "$root/etc/passwd" "$root/etc/group"
}
listed >"$work/before"
inside dpkg -i /tmp/linkerd-proxy.deb
inside linkerd-proxy --version
inside id linkerd-proxy
# It reports what the empty environment lacks, and runs as its user.
code=0
inside setpriv --reuid linkerd-proxy --regid linkerd-proxy --clear-groups linkerd-proxy check || code=$?
test "$code" = 64
inside dpkg -i /tmp/linkerd-proxy.deb
inside dpkg --purge linkerd-proxy
listed >"$work/after"
diff "$work/before" "$work/after"
echo "installed, run and purged: nothing is left"
