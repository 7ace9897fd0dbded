//! The manual page, in roff: one for all commands, each with a section of its own.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use linkerd_app::config::{VARIABLES, Variable, VariableStatus, variables::VariableDefault};
use std::io::{self, Write};

/// The page of these commands.
pub fn manual(mut command: Command) -> io::Result<Vec<u8>> {
    command.build();
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let commands = command.get_subcommands();
    for command in commands.filter(|it| it.get_name() != "help" && !it.is_hide_set()) {
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let name = command.get_name().to_uppercase();
        writeln!(text, ".SH {name}\n{}", about.replace('-', "\\-"))?;
        let mut options = Vec::new();
        Man::new(command.clone()).render_options_section(&mut options)?;
        // The command has its own heading in place of this one.
        let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", "");
        text.extend(options.into_bytes());
    }
    list("EXIT STATUS", EXIT_STATUS, &mut text)?;
    environment(&mut text)?;
    list("FILES", FILES, &mut text)?;
    list("SIGNALS", SIGNALS, &mut text)?;
    examples(&mut text)?;
    page.render_version_section(&mut text)?;
    Ok(text)
}

/// A section of terms and their descriptions.
fn list(heading: &str, rows: &[(&str, &str)], text: &mut Vec<u8>) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("SH", [heading]);
    for (term, description) in rows {
        page.control("TP", []);
        page.text([bold(*term)]);
        page.text([roman(*description)]);
    }
    page.to_writer(text)
}

/// The variables with an effect, by group.
fn environment(text: &mut Vec<u8>) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("SH", ["ENVIRONMENT"]);
    page.text([roman(ENVIRONMENT)]);
    let used = VARIABLES
        .iter()
        .filter(|it| it.status == VariableStatus::Used);
    let mut group = "";
    for variable in used {
        if variable.group != group {
            group = variable.group;
            page.control("SS", [group]);
        }
        page.control("TP", []);
        page.text([bold(variable.name)]);
        page.text([roman(described(variable))]);
    }
    page.to_writer(text)
}

fn described(variable: &Variable) -> String {
    let kind = match variable.unit {
        "" => variable.kind.name.to_owned(),
        unit => format!("{} ({unit})", variable.kind.name),
    };
    let default = match variable.default {
        VariableDefault::Text("") => ", empty by default".to_owned(),
        VariableDefault::Text(value) => format!(", {value} by default"),
        VariableDefault::Derived(from) => format!(", by default that of {from}"),
        VariableDefault::Required => ", required".to_owned(),
        VariableDefault::Unset => String::new(),
    };
    let lines: Vec<_> = variable.doc.iter().map(|line| line.trim()).collect();
    // The documentation is in Markdown.
    let doc = lines.join(" ").replace('`', "");
    format!("({kind}{default}) {doc}")
}

fn examples(text: &mut Vec<u8>) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]);
    for (purpose, commands) in EXAMPLES {
        page.control("PP", []);
        page.text([roman(*purpose)]);
        page.control("PP", []);
        page.control("RS", ["4"]);
        page.control("nf", []);
        for command in *commands {
            page.text([roman(*command)]);
        }
        page.control("fi", []);
        page.control("RE", []);
    }
    page.to_writer(text)
}

const ENVIRONMENT: &str = "The environment is read once, at the start. `linkerd-proxy env` prints the values in effect. Variables that \
    start with LINKERD2_PROXY_ have the meaning that linkerd2-proxy gives them, those that start with LINKERD_PROXY_ are this proxy's own.";

const EXIT_STATUS: &[(&str, &str)] = &[
    (
        "0",
        "Any normal end, also when the grace period of the shutdown ran out.",
    ),
    (
        "1",
        "The proxy or the controller cannot be started; check finds another failure than of the configuration; explain finds no \
         route; the proxy that explain or tap asks does not answer.",
    ),
    (
        "2",
        "The usage of another command than check, explain and tap is wrong.",
    ),
    (
        "64",
        "The configuration, a manifest, or the usage of check, explain or tap is wrong. The unit of systemd does not restart the proxy then.",
    ),
    ("69", "await: the proxy is not ready in time."),
    ("95", "init --check: connections are not redirected."),
];

const FILES: &[(&str, &str)] = &[
    (
        "/etc/default/linkerd-proxy",
        "The environment of linkerd-proxy.service.",
    ),
    (
        "/etc/linkerd-proxy/mesh.yaml",
        "The usual place of a mesh file on a host (PROXY_ARGS=\"--mesh /etc/linkerd-proxy/mesh.yaml\"). The proxy follows its changes.",
    ),
    (
        "/run/linkerd-proxy/identity",
        "The usual LINKERD2_PROXY_IDENTITY_DIR: the key and the certificate request.",
    ),
    (
        "/usr/share/doc/linkerd-proxy/README.md",
        "The introduction, with links to the other documents in this directory.",
    ),
    (
        "/usr/share/doc/linkerd-proxy/linkerd-control/README.md",
        "The reference of the mesh file.",
    ),
    (
        "/usr/share/doc/linkerd-proxy/docs/env.md",
        "The variables in tables, with the accepted values.",
    ),
    (
        "/usr/share/doc/linkerd-proxy/docs/operations.md",
        "Operation: failures and their causes, state, metrics, shutdown.",
    ),
    (
        "/usr/share/doc/linkerd-proxy/examples/mesh.yaml",
        "An example of a mesh file.",
    ),
];

const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGTERM, SIGINT",
        "The proxy leaves: it asks clients to move, finishes open requests for the grace period at most \
         (LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD), and ends. A second signal ends it at once.",
    ),
    (
        "SIGHUP",
        "run --mesh and control read the mesh file again; control also reads its certificates and its key. The files of the \
         access log and of traces are opened again, as a rotation needs. Nothing else changes.",
    ),
    ("SIGUSR1, SIGUSR2", "A line in the log."),
];

const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "To see the proxy at work on this machine:",
        &["linkerd-proxy quickstart"],
    ),
    (
        "To check a mesh file, and to run the proxy with it:",
        &[
            "linkerd-proxy check --mesh mesh.yaml --mesh-only",
            "linkerd-proxy run --mesh mesh.yaml --access-log",
            "curl -x http://127.0.0.1:4140 http://web/",
        ],
    ),
    (
        "To see the route of a request, and requests as they happen:",
        &[
            "linkerd-proxy explain GET http://web/",
            "linkerd-proxy tap --authority web --max 3",
        ],
    ),
    (
        "To find out what is wrong with an environment, and with a running proxy:",
        &[
            "linkerd-proxy check",
            "linkerd-proxy env --json",
            "linkerd-proxy check --admin 127.0.0.1:4191",
        ],
    ),
    (
        "To add the sidecar to manifests of Kubernetes:",
        &["linkerd-proxy inject web.yaml | kubectl apply -f -"],
    ),
];
