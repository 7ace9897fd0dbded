#!/bin/sh
# Packs the binary as a Debian package: deploy/debian/build.sh ARCH BINARY OUT [PROGRAM].
#
# ARCH is amd64 or arm64; OUT is the file to write. PROGRAM prints the manual, if the machine cannot run BINARY. The version is
# LINKERD2_PROXY_VERSION, or that of the workspace. Needs dpkg-deb, jq and cargo.
set -eu
cd "$(dirname "$0")/../.."

arch=${1:?ARCH}
binary=${2:?BINARY}
out=${3:?OUT}
program=${4:-$binary}
case $arch in
amd64) target=x86_64-unknown-linux-gnu ;;
arm64) target=aarch64-unknown-linux-gnu ;;
*) echo "unknown architecture: $arch" >&2 && exit 64 ;;
esac
maintainer=${LINKERD_PACKAGE_MAINTAINER:-"linkerd-proxy maintainers <maintainers@linkerd-proxy.invalid>"}
workspace=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# A part after a hyphen is one of a version that is still to come: lower than the version without it.
version=$(echo "${LINKERD2_PROXY_VERSION:-$workspace-dev}" | sed 's/^v//; s/-/~/g')
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH="$epoch"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

put() {
    install -m "$1" -D "$2" "$root/$3"
}
put 0755 "$binary" usr/bin/linkerd-proxy
put 0644 deploy/systemd/linkerd-proxy.service usr/lib/systemd/system/linkerd-proxy.service
put 0644 deploy/debian/sysusers usr/lib/sysusers.d/linkerd-proxy.conf
put 0644 deploy/debian/default etc/default/linkerd-proxy
put 0644 deploy/debian/copyright usr/share/doc/linkerd-proxy/copyright
put 0644 deploy/debian/lintian-overrides usr/share/lintian/overrides/linkerd-proxy
put 0644 CHANGELOG.md usr/share/doc/linkerd-proxy/CHANGELOG.md
# In the folders of the repository, so that links between them lead somewhere.
for document in README.md SECURITY.md docs/*.md linkerd-control/README.md; do
    put 0644 "$document" "usr/share/doc/linkerd-proxy/$document"
done
put 0644 deploy/debian/mesh.yaml usr/share/doc/linkerd-proxy/examples/mesh.yaml
mkdir -p "$root/etc/linkerd-proxy"
deploy/sbom.sh "$target" >"$root/usr/share/doc/linkerd-proxy/linkerd-proxy.cdx.json"
cat >"$root/usr/share/doc/linkerd-proxy/changelog" <<END
linkerd-proxy ($version) unstable; urgency=medium

  * CHANGELOG.md has the changes.

 -- $maintainer  $(date -u -R -d "@$epoch")
END
mkdir -p "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions"
"$program" man >"$root/usr/share/man/man1/linkerd-proxy.1"
"$program" completions bash >"$root/usr/share/bash-completion/completions/linkerd-proxy"
gzip -9n "$root/usr/share/man/man1/linkerd-proxy.1" "$root"/usr/share/doc/linkerd-proxy/changelog \
    "$root/usr/share/doc/linkerd-proxy/CHANGELOG.md"

mkdir -p "$root/DEBIAN"
for script in postinst prerm postrm; do
    put 0755 "deploy/debian/$script" "DEBIAN/$script"
done
echo /etc/default/linkerd-proxy >"$root/DEBIAN/conffiles"
(cd "$root" && find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
cat >"$root/DEBIAN/control" <<END
Package: linkerd-proxy
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: passwd
Recommends: systemd
Suggests: iptables
Description: service-mesh data-plane proxy
 It runs beside an application and carries its traffic: HTTP, gRPC and any TCP,
 with discovery of endpoints, load balancing, retries, circuit breaking and
 mutual TLS, by a Linkerd control plane or a file of services.
END
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch -h -d "@$epoch" {} +
mkdir -p "$(dirname "$out")"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out"
