#!/bin/sh
# Packs a root file system into an image, without a registry or privileges beyond root: deploy/image.sh ARCH DIRECTORY OUT.
#
# DIRECTORY has rootfs, as deploy/rootfs.sh makes it; OUT is the file to write, an archive in the format of OCI. Needs buildah.
set -eu
cd "$(dirname "$0")/.."

arch=${1:?ARCH}
directory=${2:?DIRECTORY}
out=${3:?OUT}
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
run() {
    command=$1
    shift
    buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$command" "$@"
}

run bud --isolation chroot --arch "$arch" --format oci --timestamp "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}" \
    -f deploy/Dockerfile --target prebuilt -t linkerd-proxy "$directory"
rm -f "$out"
run push linkerd-proxy "oci-archive:$out:linkerd-proxy"
