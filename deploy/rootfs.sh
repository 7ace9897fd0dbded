#!/bin/sh
# Makes the root file system of the image: deploy/rootfs.sh ARCH BINARY OUT.
#
# ARCH is Debian's name, amd64 or arm64; OUT is a directory that does not exist. docs/image.md says what is in it. It needs
# Debian's apt, dpkg, jq and setcap (libcap2-bin), root for the capabilities of the file, and no machine of that architecture.
set -eu
cd "$(dirname "$0")/.."

arch=${1:?ARCH}
binary=${2:?BINARY}
out=${3:?OUT}
case $arch in
amd64) gnu=x86_64-linux-gnu ;;
arm64) gnu=aarch64-linux-gnu ;;
*) echo "unknown architecture: $arch" >&2 && exit 64 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One file is all programs that linkerd2's injector and its templates name; it tells them apart by the name it is started by.
mkdir -p "$out/usr/lib/linkerd" "$out/usr/bin" "$out/usr/sbin" "$out/usr/lib64"
for directory in bin sbin lib lib64; do
    ln -s "usr/$directory" "$out/$directory"
done
install -m 0755 "$binary" "$out/usr/lib/linkerd/linkerd2-proxy"
for name in linkerd2-proxy-identity linkerd2-proxy-init linkerd2-network-validator linkerd-await; do
    ln -s linkerd2-proxy "$out/usr/lib/linkerd/$name"
done
ln -s ../lib/linkerd/linkerd2-proxy "$out/usr/bin/linkerd-proxy"
ln -s ../lib/linkerd/linkerd2-proxy "$out/usr/bin/sleep"
install -m 0644 -D LICENSE "$out/usr/share/doc/linkerd-proxy/copyright"

# init runs iptables. An apt of its own fetches it for the other architecture, and leaves the machine's alone.
packages="iptables libc6 libip4tc2 libip6tc2 libmnl0 libnftnl11 libxtables12"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
apt() {
    apt-get -q -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o APT::Sandbox::User=root \
        -o Dir::State::status=/dev/null -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" "$@"
}
apt update
# Word by word: a list.
(cd "$work/debs" && apt download $packages)
for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work/x"
    name=$(dpkg-deb -f "$deb" Package)
    # Scanners of images read the packages here, as in images that have no dpkg.
    mkdir -p "$out/var/lib/dpkg/status.d"
    dpkg-deb -f "$deb" >"$out/var/lib/dpkg/status.d/$name"
    install -m 0644 -D "$work/x/usr/share/doc/$name/copyright" "$out/usr/share/doc/$name/copyright"
done

keep() {
    for file in "$@"; do
        # Debian's packages of this release still have /lib apart from /usr/lib.
        to=$out/usr${file#"$work/x"}
        case $file in "$work"/x/usr/*) to=$out${file#"$work/x"} ;; esac
        mkdir -p "$(dirname "$to")"
        cp -P "$file" "$to"
    done
}
for library in libmnl.so.0 libnftnl.so.11 libxtables.so.12 libip4tc.so.2 libip6tc.so.2; do
    keep "$work/x/usr/lib/$gnu/$library"*
done
keep "$work/x/lib/$gnu/libc.so.6" "$work/x/lib/$gnu"/ld-linux-*
# The loader's path, which programs name: /lib64/ld-linux-x86-64.so.2, /lib/ld-linux-aarch64.so.1.
loader=$(cd "$work/x" && ls lib*/ld-linux-* | head -n 1)
[ -e "$out/usr/$loader" ] || ln -s "/usr/lib/$gnu/$(basename "$loader")" "$out/usr/$loader"
keep "$work/x/usr/sbin/xtables-nft-multi" "$work/x/usr/sbin/xtables-legacy-multi"
for family in iptables ip6tables; do
    for kind in nft legacy; do
        for action in "" -restore -save; do
            ln -s "xtables-$kind-multi" "$out/usr/sbin/$family-$kind$action"
        done
    done
    # The default of Debian.
    for action in "" -restore -save; do
        ln -s xtables-nft-multi "$out/usr/sbin/$family$action"
    done
done
# Of the extensions those that init uses, and those of rules that others may have set in the table nat.
extensions=$work/x/usr/lib/$gnu/xtables
for name in standard tcp udp comment multiport owner REDIRECT NAT DNAT SNAT MASQUERADE \
    MARK CONNMARK mark connmark addrtype conntrack state set statistic iprange limit LOG; do
    keep "$extensions/libxt_$name.so"
done
keep "$extensions"/lib*t_NETMAP.so "$extensions"/libip*t_icmp*.so

mkdir -p "$out/usr/share/sbom"
deploy/sbom.sh "${gnu%-linux-gnu}-unknown-linux-gnu" "$out/var/lib/dpkg/status.d" >"$out/usr/share/sbom/linkerd-proxy.cdx.json"

# Permitted, and not effective: the proxy starts without them, and init of another user than root passes them on. Last, as a
# copy would lose them.
setcap cap_net_admin,cap_net_raw=p "$out/usr/lib/linkerd/linkerd2-proxy"
