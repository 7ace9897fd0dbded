//! Build script: sets version, vendor, revision, profile and date, and passes the order of functions to the linker.
//! Works without a repository, and runs again only when one of these may have changed.

#![allow(
    clippy::disallowed_methods,
    reason = "cargo passes parameters in the environment"
)]

use std::{
    env,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let set = |name: &str, value: &str| println!("cargo:rustc-env=LINKERD_BUILD_{name}={value}");
    let package = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = given("LINKERD2_PROXY_VERSION").unwrap_or(format!("{package}-dev"));
    set("VERSION", &version);
    set(
        "VENDOR",
        &given("LINKERD2_PROXY_VENDOR").unwrap_or("unknown".into()),
    );
    set(
        "GIT_SHA",
        &git(&["rev-parse", "--short", "HEAD"]).unwrap_or("unknown".into()),
    );
    set("PROFILE", &profile());
    set("DATE", &date());
    watch_revision();
    if is_shipped() {
        order_functions();
        pack_relocations();
    }
}

/// The profile's name, from its output directory: `debug`, `release`, `dist`. Cargo's own variable says `release` for
/// all profiles that inherit from it; the output directory is `target/<profile>/build/<package>/out`.
fn profile() -> String {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let directory = Path::new(&out).ancestors().nth(3);
    let name = directory.and_then(|path| path.file_name()?.to_str());
    let known = name.filter(|name| ["debug", "release", "dist"].contains(name));
    known.map_or_else(|| env::var("PROFILE").unwrap_or_default(), str::to_owned)
}

/// Whether the binary is laid out for memory: with the profile `dist`, on Linux. LLVM's and GNU's linkers can; for another,
/// or for a system with an older C library than glibc 2.36, `LINKERD_BUILD_ORDER=no` disables it.
fn is_shipped() -> bool {
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|set| set == "linux");
    let wanted = given("LINKERD_BUILD_ORDER").is_none_or(|set| set != "no");
    wanted && profile() == "dist" && is_linux
}

/// Has the linker place the functions of a serving proxy together, so that less of its code is resident. Only the profile
/// `dist` has the functions that the order names: without link-time optimization others are inlined.
fn order_functions() {
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=order.ld");
    println!("cargo:rustc-link-arg-bins=-T");
    println!("cargo:rustc-link-arg-bins={directory}/order.ld");
}

/// Has the linker write the addresses that depend on where the program is loaded in a thirtieth of the bytes: all of them
/// are read at the start, and stay in memory.
fn pack_relocations() {
    println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}

/// A non-empty environment variable. Only its first line fits into a label.
fn given(name: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed={name}");
    let value = env::var(name).ok()?;
    let line = value.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

/// A commit moves the branch that HEAD names; a checkout changes HEAD. A path that does not exist would make every
/// build run this again.
fn watch_revision() {
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}

/// The current date, or the one set for a reproducible build; in UTC.
fn date() -> String {
    let named = given("SOURCE_DATE_EPOCH").and_then(|epoch| epoch.parse().ok());
    let seconds = named.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs())
    });
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day after 1970-01-01. Years begin in March here, so that leap days come last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}
