//! The programs of this workspace under test.

use crate::error::{Context, Error, Result};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The paths of the programs. Any user can run them.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Builds missing or outdated programs, with the profile of this program. Costs little without changes.
    pub fn build() -> Result<()> {
        let directory = own_directory()?;
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") => "dev",
            Some(profile) => profile,
            None => "release",
        };
        if profile != "dist" {
            eprintln!("note: this is not a `--profile dist` build; its figures mean little");
        }
        let build = |package, programs: &[&str]| build(&directory, profile, package, programs);
        build("bench", &OWN)?;
        match std::env::var_os(OURS) {
            Some(_) => Ok(()),
            None => build("linkerd-app", &["linkerd-proxy"]),
        }
    }

    /// Copies the programs to a directory where any user can run them.
    pub fn place(directory: &Path) -> Result<Self> {
        let own = own_directory()?;
        let programs = Self {
            directory: directory.to_owned(),
        };
        for name in OWN {
            programs.add(name, &own.join(name))?;
        }
        let ours = std::env::var_os(OURS).map_or_else(|| own.join("linkerd-proxy"), PathBuf::from);
        programs.add("linkerd-proxy", &ours)?;
        Ok(programs)
    }

    /// Copies another program to the directory, and returns its path.
    pub fn add(&self, name: &str, path: &Path) -> Result<PathBuf> {
        let to = self.path(name);
        fs::copy(path, &to).context(path.display().to_string())?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))
            .context(to.display().to_string())?;
        Ok(to)
    }

    /// The path of a program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Builds programs of one package. Building two packages in one command would give the proxy the library features that the
/// harness uses: it would differ from the shipped proxy, and be built twice.
fn build(directory: &Path, profile: &str, package: &str, programs: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(["build", "--quiet", "--profile", profile]);
    command.args(["--package", package]);
    for program in programs {
        command.args(["--bin", program]);
    }
    if let Some(target) = directory.parent() {
        command.arg("--target-dir").arg(target);
    }
    let status = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cargo build")?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Other(format!("{package} cannot be built"))),
    }
}

/// `target/<profile>`
fn own_directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(program.parent().unwrap_or(Path::new(".")).to_owned())
}

/// The programs of the harness.
const OWN: [&str; 3] = ["backend", "forwarder", "relay"];

/// Another build of the proxy to measure in place of this workspace's.
const OURS: &str = "LINKERD_BENCH_OURS";
