//! Containers of a pod's manifest, run in the root file system of the image like by a kubelet: with their user, their
//! capabilities and their environment, with a read-only root and mounted volumes. The runtime is crun.

use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The root file system of the image: `LINKERD_TESTS_IMAGE`.
pub fn image() -> Option<PathBuf> {
    std::env::var_os("LINKERD_TESTS_IMAGE").map(PathBuf::from)
}

/// A runnable container.
pub struct Container {
    /// The name used by the runtime.
    pub id: String,
    bundle: TempDir,
}

/// The parts of a container that are not in its manifest.
#[derive(Clone, Debug, Default)]
pub struct Pod<'a> {
    /// Values of the environment that are taken from the pod, by `fieldPath`, or by the key of a ConfigMap.
    pub fields: &'a [(&'a str, String)],
    /// Files and directories of the host by their paths in the container, read-only.
    pub files: &'a [(PathBuf, &'a str)],
}

impl Container {
    /// A container of a manifest in the image. The root file system of the host is not changed.
    pub fn new(manifest: &Value, pod: &Pod<'_>, image: &Path) -> Self {
        let bundle = tempfile::tempdir().unwrap();
        let name = manifest["name"].as_str().unwrap();
        let id = format!("{name}-{}", std::process::id());
        overlay(image, bundle.path());
        control_groups();
        let config = config(manifest, pod);
        fs::write(bundle.path().join("config.json"), config.to_string()).unwrap();
        Self { id, bundle }
    }

    /// Starts the container.
    pub fn start(&self) -> Child {
        let mut command = crun();
        command.arg("run").arg("--bundle").arg(self.bundle.path());
        command.arg(&self.id).stdin(Stdio::null());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the container until it ends.
    pub async fn run(&self) -> Output {
        self.start().wait_with_output().await.unwrap()
    }

    /// Runs a program in the container, like a hook.
    pub async fn exec(&self, program: &[&str]) -> Output {
        let mut command = crun();
        command.arg("exec").arg(&self.id).args(program);
        command.output().await.unwrap()
    }

    /// Sends SIGTERM to the container.
    pub async fn terminate(&self) {
        let sent = crun().args(["kill", &self.id, "TERM"]).status().await;
        assert!(sent.unwrap().success());
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = std::process::Command::new("crun")
            .args([NO_CGROUPS, "delete", "--force", &self.id])
            .output();
        for mount in ["rootfs", "upper"] {
            let _ = std::process::Command::new("umount")
                .arg("--lazy")
                .arg(self.bundle.path().join(mount))
                .status();
        }
    }
}

fn crun() -> Command {
    let mut command = Command::new("crun");
    command.arg(NO_CGROUPS).kill_on_drop(true);
    command
}

/// Mounts the image at `rootfs`, with a writable layer for the runtime's mount points.
fn overlay(image: &Path, bundle: &Path) {
    let upper = bundle.join("upper");
    let rootfs = bundle.join("rootfs");
    for directory in [&upper, &rootfs] {
        fs::create_dir(directory).unwrap();
    }
    mount(&["-t", "tmpfs", "tmpfs"], &upper);
    for directory in ["files", "work"] {
        fs::create_dir(upper.join(directory)).unwrap();
    }
    let (image, upper) = (image.display(), upper.display());
    let options = format!("lowerdir={image},upperdir={upper}/files,workdir={upper}/work");
    mount(&["-t", "overlay", "overlay", "-o", &options], &rootfs);
}

/// Mounts the control groups, which the runtime needs: a network namespace has another `/sys`, without them.
fn control_groups() {
    let at = Path::new("/sys/fs/cgroup");
    if fs::read_dir(at).unwrap().next().is_none() {
        mount(&["-t", "cgroup2", "cgroup2"], at);
    }
}

fn mount(args: &[&str], at: &Path) {
    let mut command = std::process::Command::new("mount");
    let output = command.args(args).arg(at).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mount {args:?}: {error}");
}

/// The runtime's configuration of a container.
fn config(manifest: &Value, pod: &Pod<'_>) -> Value {
    let security = &manifest["securityContext"];
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let command = match texts(&manifest["command"]) {
        none if none.is_empty() => vec![ENTRYPOINT.to_owned()],
        command => command,
    };
    let capabilities: Vec<_> = texts(&security["capabilities"]["add"])
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    let mut env = vec!["PATH=/usr/sbin:/usr/bin".to_owned()];
    env.extend(environment(&manifest["env"], pod));
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}),
    ];
    let file_of = |path: &str| pod.files.iter().find(|(_, at)| *at == path);
    for volume in manifest["volumeMounts"].as_array().into_iter().flatten() {
        let path = volume["mountPath"].as_str().unwrap();
        if file_of(path).is_none() {
            mounts.push(json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}));
        }
    }
    for (source, path) in pod.files {
        mounts.push(json!({"destination": path, "type": "bind", "source": source, "options": ["bind", "ro"]}));
    }
    let args = [command, texts(&manifest["args"])].concat();
    let user = security["runAsUser"].as_u64().unwrap();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": security["runAsGroup"].as_u64().unwrap_or(0)},
            "args": args,
            "env": env,
            "cwd": "/",
            "noNewPrivileges": security["allowPrivilegeEscalation"] == json!(false),
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
        },
        "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
        "mounts": mounts,
        // The network is that of this process.
        "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]},
    })
}

/// The environment: values, fields of the pod, and references to earlier variables.
fn environment(variables: &Value, pod: &Pod<'_>) -> Vec<String> {
    let mut known: Vec<(String, String)> = Vec::new();
    for variable in variables.as_array().into_iter().flatten() {
        let source = &variable["valueFrom"];
        let field = [
            &source["fieldRef"]["fieldPath"],
            &source["configMapKeyRef"]["key"],
        ];
        let value = match field.into_iter().find_map(Value::as_str) {
            Some(field) => {
                let found = pod.fields.iter().find(|(name, _)| *name == field);
                found.unwrap_or_else(|| panic!("no {field}")).1.clone()
            }
            None => {
                let text = variable["value"].as_str().unwrap_or_default();
                known.iter().fold(text.to_owned(), |text, (name, value)| {
                    text.replace(&format!("$({name})"), value)
                })
            }
        };
        known.push((variable["name"].as_str().unwrap().to_owned(), value));
    }
    known
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Containers of tests have no limits.
const NO_CGROUPS: &str = "--cgroup-manager=disabled";
/// The entry point of the image.
const ENTRYPOINT: &str = "/usr/lib/linkerd/linkerd2-proxy-identity";
