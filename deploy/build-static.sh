#!/bin/sh
# Builds linkerd-proxy as one static file, for the image and the package: deploy/build-static.sh TARGET OUT.
#
# TARGET is x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu, on a machine of either kind; OUT is the file to write.
# Another architecture than the machine's needs its cross compiler (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross).
#
# The C library is glibc, linked statically: its memcpy is what the figures are measured with, and its resolver for the host
# names of mesh files has DNS and /etc/hosts built in since 2.34, so that it loads nothing. The proxy's own resolver needs
# neither.
set -eu
cd "$(dirname "$0")/.."

target=${1:?TARGET}
out=${2:?OUT}

# Only the flags of this target: build scripts and macros run on this machine, and are linked as ever.
variable=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')
# Random bytes come from the system call: a static program does not find the C library's function by its name at run time, and
# would read /dev/urandom.
flags="-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\""
# The toolchain's own lld links for both, as it does by itself on x86-64: GNU's takes minutes for the order of functions.
host=$(rustc -vV | sed -n 's/^host: //p')
flags="$flags -C link-arg=-fuse-ld=lld -C link-arg=-B$(rustc --print sysroot)/lib/rustlib/$host/bin/gcc-ld"
export "${variable}_RUSTFLAGS=$flags"
if [ "$target" != "$host" ]; then
    gnu=${target%%-*}-linux-gnu
    export "${variable}_LINKER=$gnu-gcc"
fi
# Line tables are half of the file. Names of functions stay, for panics and profilers.
export CARGO_PROFILE_DIST_STRIP=debuginfo

cargo build --locked --profile dist -p linkerd-app --target "$target"
mkdir -p "$(dirname "$out")"
cp "${CARGO_TARGET_DIR:-target}/$target/dist/linkerd-proxy" "$out"
