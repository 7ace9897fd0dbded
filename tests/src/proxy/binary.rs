use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The tested proxy: `LINKERD_TESTS_PROXY`, or the proxy of this workspace, built if needed.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("LINKERD_TESTS_PROXY") {
        Some(path) => path.into(),
        None => build(),
    })
}

/// Builds the proxy next to this test, with the same profile. Costs little without changes.
fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/<profile>/deps/<test>
    let directory = test.ancestors().nth(2).unwrap();
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--package",
            "linkerd-app",
            "--bin",
            "linkerd-proxy",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(directory.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "the proxy cannot be built:\n{error}"
    );
    directory.join("linkerd-proxy")
}
