//! `init`: redirects a pod's traffic to the proxy, or checks that it is.

use linkerd_init::{Change, Family, InboundRules, NetworkCheck, Redirection, Tools};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// The rules that `init` sets, and the way it sets them.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The rules.
    pub redirection: Redirection,
    /// The programs of iptables.
    pub tools: Tools,
    /// Whether IPv6 is redirected as well.
    pub ipv6: bool,
    /// Prints the rules, and sets nothing.
    pub simulate: bool,
    /// The network namespace, if it is not that of this process.
    pub namespace: Option<PathBuf>,
    /// The time after which the kernel forgets connections that one side has closed, in seconds.
    pub close_wait_seconds: Option<u32>,
}

/// Sets the rules, or prints them. The exit code is 0, or 1 if they cannot be set.
pub fn run(options: &InitOptions) -> ExitCode {
    let families: &[Family] = match options.ipv6 {
        true => &[Family::V4, Family::V6],
        false => &[Family::V4],
    };
    if options.simulate {
        for family in families {
            let is_ipv6 = *family == Family::V6;
            let script = options.redirection.script(is_ipv6, Default::default());
            let title = if is_ipv6 { "IPv6" } else { "IPv4" };
            // A closed pipe, as of `head`, is no failure.
            let _ = writeln!(io::stdout(), "# {title}\n{script}");
        }
        return ExitCode::SUCCESS;
    }
    match set(options, families) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn set(options: &InitOptions, families: &[Family]) -> Result<(), linkerd_init::InitError> {
    if let Some(namespace) = &options.namespace {
        linkerd_init::enter_namespace(namespace)?;
    }
    let applied = linkerd_init::apply(&Change {
        redirection: &options.redirection,
        families,
        tools: &options.tools,
        close_wait_seconds: options.close_wait_seconds,
    })?;
    for (program, script) in &applied.scripts {
        eprintln!("{program}:\n{script}");
    }
    for warning in &applied.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

/// Checks that connections from this pod are redirected, and looks for the rules of those to it. The exit code is 0, or 95 if
/// those from it are not redirected.
pub fn check(check: &NetworkCheck) -> ExitCode {
    let family = match check.connect.is_ipv6() {
        true => Family::V6,
        false => Family::V4,
    };
    if let Err(error) = linkerd_init::check(check) {
        eprintln!("error: {error}");
        return ExitCode::from(EXIT_NOT_REDIRECTED);
    }
    eprintln!(
        "connections from here are redirected: {} reached {}",
        check.connect, check.listen
    );
    match linkerd_init::inbound_rules(family) {
        InboundRules::Found(program) => {
            eprintln!(
                "connections to here: {program} has the rules, which cannot be tried from inside"
            );
        }
        InboundRules::Missing(programs) => eprintln!(
            "warning: connections to here are not redirected: no jump from PREROUTING ({programs}); run `linkerd-proxy init` in this network namespace, or check the CNI plugin"
        ),
        InboundRules::Unknown => {
            eprintln!("connections to here: not checked, as their rules cannot be read here");
        }
    }
    ExitCode::SUCCESS
}

fn failed(error: &linkerd_init::InitError) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// The exit code of linkerd2's network validator.
const EXIT_NOT_REDIRECTED: u8 = 95;
