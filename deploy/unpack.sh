#!/bin/sh
# Unpacks the root file system of an image: deploy/unpack.sh ARCHIVE OUT. ARCHIVE is what deploy/image.sh writes. Needs jq and
# root, for the capabilities of files.
set -eu

archive=${1:?ARCHIVE}
out=${2:?OUT}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xf "$archive" -C "$work"
blob() {
    echo "$work/blobs/$(echo "$1" | tr : /)"
}
manifest=$(blob "$(jq -r '.manifests[0].digest' "$work/index.json")")
mkdir -p "$out"
for layer in $(jq -r '.layers[].digest' "$manifest"); do
    tar -xzf "$(blob "$layer")" -C "$out" --xattrs --xattrs-include='*'
done
