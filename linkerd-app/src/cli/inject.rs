//! `inject` and `uninject`: the sidecar in Kubernetes manifests.

use crate::config::EXIT_USAGE;
use linkerd_inject::{
    CONFIG_PREFIX, InjectMode, InjectOptions, Manifest, ManifestError, MeshInstallation, Note,
    ProxySettings, inject, unified_diff, uninject,
};
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The manifests of a command.
#[derive(clap::Args)]
pub struct ManifestArgs {
    /// Manifests in YAML or JSON; - or none for standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Prints the changes as a unified diff in place of the manifests.
    #[arg(long)]
    diff: bool,
}

/// The options of `inject`.
#[derive(clap::Args)]
pub struct InjectArgs {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// The namespace of the control plane.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd")]
    control_plane_namespace: String,
    /// The trust domain of identities.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    identity_trust_domain: String,
    /// The domain of the cluster's services.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// A file of trust anchors in PEM. By default pods read them from key ca-bundle.crt of the ConfigMap
    /// linkerd-identity-trust-roots in their own namespace.
    #[arg(long, value_name = "FILE")]
    identity_trust_anchors_file: Option<PathBuf>,
    /// The namespace of workloads whose manifests name none.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The image of the proxy, without its version.
    #[arg(long, value_name = "IMAGE")]
    proxy_image: Option<String>,
    /// The version of that image.
    #[arg(long, value_name = "VERSION")]
    proxy_version: Option<String>,
    /// Sets a default for the annotation config.linkerd.io/NAME, such as proxy-log-level=debug. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// Injects proxies in ingress mode: requests name their service by l5d-dst-override.
    #[arg(long, conflicts_with = "annotated_only")]
    ingress: bool,
    /// Injects only workloads that ask for it, by their annotation linkerd.io/inject or that of their namespace.
    #[arg(long)]
    annotated_only: bool,
    /// A CNI plugin redirects the traffic of pods: the init container only checks that it does.
    #[arg(long)]
    linkerd_cni_enabled: bool,
    /// Pods have IPv6 addresses, too.
    #[arg(long)]
    ipv6: bool,
}

/// Adds the sidecar to manifests, and prints them.
pub fn inject_manifests(args: &InjectArgs) -> ExitCode {
    let options = match options(args) {
        Ok(options) => options,
        Err(error) => return error.exit(),
    };
    change(&args.manifests, |manifests| inject(manifests, &options))
}

/// Removes the sidecar from manifests, and prints them.
pub fn uninject_manifests(args: &ManifestArgs) -> ExitCode {
    change(args, uninject)
}

/// An error of the command itself.
enum CommandError {
    Usage(String),
    Io(String),
}

impl CommandError {
    fn exit(&self) -> ExitCode {
        match self {
            Self::Usage(text) => {
                eprintln!("error: {text}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Io(text) => {
                eprintln!("error: {text}");
                ExitCode::FAILURE
            }
        }
    }
}

fn options(args: &InjectArgs) -> Result<InjectOptions, CommandError> {
    let mut settings = ProxySettings::default();
    let image = args.proxy_image.iter().map(|value| ("proxy-image", value));
    let version = args.proxy_version.iter();
    let version = version.map(|value| ("proxy-version", value));
    for (name, value) in image.chain(version) {
        settings.set(name, value).map_err(CommandError::Usage)?;
    }
    for config in &args.config {
        let Some((name, value)) = config.split_once('=') else {
            let text = format!("--config {config}: NAME=VALUE is expected");
            return Err(CommandError::Usage(text));
        };
        let name = name.strip_prefix(CONFIG_PREFIX).unwrap_or(name);
        let set = settings.set(name, value);
        set.map_err(|error| CommandError::Usage(format!("--config {error}")))?;
    }
    let trust_anchors = match &args.identity_trust_anchors_file {
        Some(path) => Some(read_trust_anchors(path)?),
        None => None,
    };
    let mode = match (args.ingress, args.annotated_only) {
        (true, _) => InjectMode::Ingress,
        (_, true) => InjectMode::Annotated,
        _ => InjectMode::Enabled,
    };
    Ok(InjectOptions {
        mesh: MeshInstallation {
            control_plane_namespace: args.control_plane_namespace.clone(),
            trust_domain: args.identity_trust_domain.clone(),
            cluster_domain: args.cluster_domain.clone(),
            trust_anchors,
            cni: args.linkerd_cni_enabled,
            ipv6: args.ipv6,
        },
        settings,
        mode,
        namespace: args.namespace.clone(),
    })
}

fn read_trust_anchors(path: &Path) -> Result<String, CommandError> {
    let name = path.display();
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| CommandError::Io(format!("{name}: {error}")))?;
    match text.contains("-----BEGIN CERTIFICATE-----") {
        true => Ok(text),
        false => Err(CommandError::Usage(format!(
            "{name}: has no certificate in PEM"
        ))),
    }
}

type Changed = Result<(Vec<Manifest>, Vec<Note>), ManifestError>;

/// Prints the changed manifests, and the notes to standard error. After an error, no manifest is printed.
fn change(args: &ManifestArgs, change: impl Fn(&[Manifest]) -> Changed) -> ExitCode {
    let manifests = match read(&args.files) {
        Ok(manifests) => manifests,
        Err(error) => return error.exit(),
    };
    let (changed, notes) = match change(&manifests) {
        Ok(changed) => changed,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    for note in &notes {
        eprintln!("{note}");
    }
    let text = match args.diff {
        true => diffs(&manifests, &changed),
        false => joined(&changed),
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A closed pipe, as of `head`, is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            CommandError::Io(format!("standard output: {error}")).exit()
        }
        _ => ExitCode::SUCCESS,
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Manifest>, CommandError> {
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { &stdin } else { files };
    let manifests = files.iter().map(|path| {
        let (name, text) = match path.as_os_str() == "-" {
            true => {
                let mut text = String::new();
                let read = io::stdin().lock().read_to_string(&mut text);
                ("standard input".to_owned(), read.map(|_| text))
            }
            false => (path.display().to_string(), fs::read_to_string(path)),
        };
        let text = text.map_err(|error| CommandError::Io(format!("{name}: {error}")))?;
        Ok(Manifest { name, text })
    });
    manifests.collect()
}

/// The texts of all files as one stream of documents.
fn joined(manifests: &[Manifest]) -> String {
    let mut joined = String::new();
    for Manifest { text, .. } in manifests {
        let is_apart = joined.is_empty() || text.starts_with("---") || text.starts_with('%');
        if !joined.is_empty() && !joined.ends_with('\n') {
            joined.push('\n');
        }
        if !is_apart {
            joined.push_str("---\n");
        }
        joined.push_str(text);
    }
    joined
}

fn diffs(before: &[Manifest], after: &[Manifest]) -> String {
    let pairs = before.iter().zip(after);
    let diffs = pairs.map(|(before, after)| {
        let name = before.name.trim_start_matches('/');
        unified_diff(name, &before.text, &after.text)
    });
    diffs.collect()
}
