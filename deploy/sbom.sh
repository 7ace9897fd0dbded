#!/bin/sh
# Prints the software bill of materials, CycloneDX in JSON: deploy/sbom.sh TARGET [PACKAGES].
#
# It lists the crates that are linked into the binary for the TARGET, by cargo's own resolution, with the checksums of
# Cargo.lock; and Debian's packages whose control files are in the directory PACKAGES.
set -eu
cd "$(dirname "$0")/.."

target=${1:?TARGET}
packages=${2:-/nonexistent}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Name, version, licence. Build scripts' dependencies and macros run at build time alone.
cargo tree --locked -p linkerd-app --target "$target" -e normal,no-proc-macro --prefix none --no-dedupe \
    --format '{p}|{l}|{r}' | sed -E 's/^([^ ]+) v([^ |]+)[^|]*\|/\1|\2|/' | sort -u >"$work/crates"
awk -F' = ' '
    /^name/ { gsub(/"/, "", $2); name = $2 }
    /^version/ { gsub(/"/, "", $2); version = $2 }
    /^checksum/ { gsub(/"/, "", $2); print name "|" version "|" $2 }
' Cargo.lock >"$work/checksums"
for file in "$packages"/*; do
    [ -e "$file" ] || continue
    awk -F': ' '/^Package:/ { p = $2 } /^Version:/ { v = $2 } /^Architecture:/ { a = $2 } END { print p "|" v "|" a }' "$file"
done >"$work/debs"

jq -n --rawfile crates "$work/crates" --rawfile checksums "$work/checksums" --rawfile debs "$work/debs" '
    def rows: split("\n") | map(select(. != "") | split("|"));
    ($checksums | rows | map({ key: "\(.[0]) \(.[1])", value: .[2] }) | from_entries) as $sums
    | def crate: {
        type: "library",
        "bom-ref": "pkg:cargo/\(.[0])@\(.[1])",
        name: .[0],
        version: .[1],
        purl: "pkg:cargo/\(.[0])@\(.[1])"
    }
    # Older manifests separate licences by a slash.
    + if .[2] == "" then {} else { licenses: [{ expression: (.[2] | gsub(" ?/ ?"; " OR ")) }] } end
    + if .[3] == "" then {} else { externalReferences: [{ type: "vcs", url: .[3] }] } end
    + ($sums["\(.[0]) \(.[1])"] as $sum | if $sum then { hashes: [{ alg: "SHA-256", content: $sum }] } else {} end);
    ($crates | rows | map(crate)) as $all
    | {
        bomFormat: "CycloneDX",
        specVersion: "1.5",
        version: 1,
        metadata: { component: ($all[] | select(.name == "linkerd-app") | . + { type: "application" }) },
        components: (
            ($all | map(select(.name != "linkerd-app")))
            + ($debs | rows | map({
                type: "library",
                "bom-ref": "pkg:deb/debian/\(.[0])@\(.[1])?arch=\(.[2])",
                name: .[0],
                version: .[1],
                purl: "pkg:deb/debian/\(.[0])@\(.[1])?arch=\(.[2])"
            }))
        )
    }'
