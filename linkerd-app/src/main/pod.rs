//! The arguments of the commands for a pod: `init`, `await` and `sleep`. Those of linkerd2's own programs are understood.

use clap::{ArgAction, Args};
use ipnet::IpNet;
use linkerd_app::{
    cli,
    config::{EXIT_USAGE, Env},
};
use linkerd_init::{NetworkCheck, PortRange, Redirection, Tools};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

/// The rules that redirect a pod's traffic.
#[derive(Args)]
pub struct InitArgs {
    /// The proxy's port for connections to this pod.
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 4143, value_parser = clap::value_parser!(u16).range(1..))]
    incoming_proxy_port: u16,
    /// The proxy's port for connections from this pod.
    #[arg(short = 'o', long, value_name = "PORT", default_value_t = 4140, value_parser = clap::value_parser!(u16).range(1..))]
    outgoing_proxy_port: u16,
    /// The user of the proxy, whose own connections are left alone.
    #[arg(short = 'u', long, value_name = "UID", default_value_t = 2102)]
    proxy_uid: u32,
    /// The group of the proxy, likewise.
    #[arg(long, value_name = "GID")]
    proxy_gid: Option<u32>,
    /// The ports of this pod that are redirected. All if none is named.
    #[arg(short = 'r', long, value_name = "PORT,…", value_delimiter = ',')]
    ports_to_redirect: Vec<u16>,
    /// Ports and ranges of this pod that are left alone, such as 4190,8000-8099.
    #[arg(short = 'i', long, value_name = "PORT,…", value_delimiter = ',')]
    inbound_ports_to_ignore: Vec<PortRange>,
    /// Ports and ranges of others that are left alone.
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    outbound_ports_to_ignore: Vec<PortRange>,
    /// Networks of clients whose connections to this pod are left alone.
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',')]
    subnets_to_ignore: Vec<IpNet>,
    /// Prints the rules, and sets nothing.
    #[arg(long, conflicts_with = "check")]
    simulate: bool,
    /// The network namespace, if it is not that of this process.
    #[arg(short = 'n', long, value_name = "PATH")]
    netns: Option<PathBuf>,
    /// Waits for other programs that change the tables.
    #[arg(short = 'w', long)]
    use_wait_flag: bool,
    /// The time after which the kernel forgets connections that one side has closed. Needs root.
    #[arg(long, value_name = "SECONDS")]
    timeout_close_wait_secs: Option<u32>,
    /// The tables of the kernel: nft, legacy, or plain for what `iptables` is on this system.
    #[arg(long, value_name = "MODE", default_value = "plain", value_parser = ["nft", "legacy", "plain"])]
    iptables_mode: String,
    /// The program that sets rules; --iptables-mode has its name otherwise.
    #[arg(long, value_name = "PATH")]
    firewall_bin_path: Option<String>,
    /// The program that prints rules, likewise.
    #[arg(long, value_name = "PATH")]
    firewall_save_bin_path: Option<String>,
    /// Redirects IPv6 as well.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    ipv6: bool,
    /// Accepted for the injector of linkerd2; the output is plain.
    #[arg(long, value_name = "FORMAT", hide = true)]
    log_format: Option<String>,
    /// Likewise.
    #[arg(long, value_name = "LEVEL", hide = true)]
    log_level: Option<String>,
    /// Sets nothing, and proves instead that connections from this pod are redirected: one to an address that leads nowhere
    /// has to reach a listener at the proxy's port. The exit code is 0, or 95 if it does not. Connections to this pod cannot be
    /// tried from inside; a warning says if their rules are missing.
    #[arg(long)]
    check: bool,
    /// Where --check listens: the proxy's port.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "0.0.0.0:4140",
        requires = "check"
    )]
    listen_addr: SocketAddr,
    /// Where --check connects to. Nobody may answer there.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "1.1.1.1:20001",
        requires = "check"
    )]
    connect_addr: SocketAddr,
    /// The time for --check, in seconds or with a unit such as 10s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, requires = "check")]
    timeout: Duration,
}

impl InitArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        if self.check {
            return cli::check_redirection(&NetworkCheck {
                listen: self.listen_addr,
                connect: self.connect_addr,
                timeout: self.timeout,
            });
        }
        let name = match &*self.iptables_mode {
            "nft" => "iptables-nft",
            "legacy" => "iptables-legacy",
            _ => "iptables",
        };
        let firewall = self.firewall_bin_path.unwrap_or_else(|| name.to_owned());
        let save = self.firewall_save_bin_path;
        let tools = Tools {
            save: save.unwrap_or_else(|| format!("{firewall}-save")),
            firewall,
            waits: self.use_wait_flag,
        };
        let redirection = Redirection {
            incoming_proxy_port: self.incoming_proxy_port,
            outgoing_proxy_port: Some(self.outgoing_proxy_port),
            proxy_uid: self.proxy_uid,
            proxy_gid: self.proxy_gid,
            ports_to_redirect: self.ports_to_redirect,
            inbound_ports_to_ignore: self.inbound_ports_to_ignore,
            outbound_ports_to_ignore: self.outbound_ports_to_ignore,
            subnets_to_ignore: self.subnets_to_ignore,
        };
        if let Err(error) = redirection.check() {
            eprintln!("error: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
        cli::init(&cli::InitOptions {
            redirection,
            tools,
            ipv6: self.ipv6,
            simulate: self.simulate,
            namespace: self.netns,
            close_wait_seconds: self.timeout_close_wait_secs,
        })
    }
}

/// The wait for the proxy.
#[derive(Args)]
pub struct AwaitArgs {
    /// The time between two attempts, in seconds or with a unit such as 500ms.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    backoff: Duration,
    /// The port of the proxy's admin server.
    #[arg(short, long, value_name = "PORT", default_value_t = 4191)]
    port: u16,
    /// Shuts the proxy down when the command has ended, as a job does.
    #[arg(short = 'S', long)]
    shutdown: bool,
    /// The longest time to wait; without it, or with 0, it waits for ever.
    #[arg(short, long, value_name = "TIME", value_parser = limit)]
    timeout: Option<Duration>,
    /// Prints each attempt.
    #[arg(short, long)]
    verbose: bool,
    /// The command to run when the proxy is ready, and its arguments.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

impl AwaitArgs {
    /// Runs the command. `LINKERD_AWAIT_DISABLED` and `LINKERD_DISABLED`, with any text, run it without waiting;
    /// `LINKERD_AWAIT_VERBOSE` prints each attempt.
    pub fn run(self, env: &Env) -> ExitCode {
        let names = ["LINKERD_AWAIT_DISABLED", "LINKERD_DISABLED"];
        let mut set = env.iter().filter(|(_, value)| !value.is_empty());
        let disabled = set.find(|(name, _)| names.contains(&&**name));
        let disabled = disabled.map(|(name, _)| name.into_owned());
        cli::await_ready(&cli::AwaitOptions {
            port: self.port,
            backoff: self.backoff,
            timeout: self.timeout.filter(|timeout| !timeout.is_zero()),
            shutdown: self.shutdown,
            disabled: disabled.map(|name| format!("{name} is set")),
            verbose: self.verbose || env.is_set("LINKERD_AWAIT_VERBOSE"),
            command: self.command,
        })
    }
}

/// The time of a hook.
#[derive(Args)]
pub struct SleepArgs {
    /// The time, in seconds or with a unit such as 500ms.
    #[arg(value_name = "TIME", value_parser = duration)]
    time: Duration,
}

impl SleepArgs {
    /// Runs the command.
    pub fn run(&self) -> ExitCode {
        std::thread::sleep(self.time);
        ExitCode::SUCCESS
    }
}

/// A time with a unit, or in seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(60 * 60),
        "d" => Duration::from_secs(24 * 60 * 60),
        _ => Duration::ZERO,
    };
    let time = number
        .parse()
        .ok()
        .and_then(|number| unit.checked_mul(number));
    let time = time.filter(|time| !time.is_zero());
    time.ok_or_else(|| "write a number and a unit: ms, s, m, h or d, such as 500ms".to_owned())
}

/// A time as [`duration`] reads it; 0 is no limit.
fn limit(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => duration(text),
    }
}

/// The arguments of a process that was started by the name of one of linkerd2's programs: those of our command.
pub fn by_program(mut args: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let name = args.first().map(PathBuf::from);
    let name = name.as_deref().and_then(std::path::Path::file_name);
    let command: &[&str] = match name.and_then(|name| name.to_str()) {
        Some("linkerd2-proxy-init") => &["init"],
        Some("linkerd2-network-validator") => &["init", "--check"],
        Some("linkerd-await") => &["await"],
        // In the image, which has no other program for the injector's hook before the proxy stops.
        Some("sleep") => &["sleep"],
        _ => &[],
    };
    let rest = args.split_off(args.len().min(1));
    args.extend(command.iter().map(Into::into));
    args.extend(rest);
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("1d"), Ok(Duration::from_secs(86_400)));
        assert_eq!(limit("0"), Ok(Duration::ZERO));
        for bad in ["", "s", "0s", "0", "1w", "-1s", "99999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn programs_of_linkerd2_are_commands() {
        let args = |all: &[&str]| by_program(all.iter().map(Into::into).collect());
        assert_eq!(
            args(&["/a/linkerd2-proxy-init", "-p", "1"]),
            ["/a/linkerd2-proxy-init", "init", "-p", "1"]
        );
        assert_eq!(
            args(&["linkerd2-network-validator"]),
            ["linkerd2-network-validator", "init", "--check"]
        );
        assert_eq!(
            args(&["linkerd-await", "app"]),
            ["linkerd-await", "await", "app"]
        );
        assert_eq!(args(&["/bin/sleep", "5"]), ["/bin/sleep", "sleep", "5"]);
        assert_eq!(args(&["linkerd-proxy", "env"]), ["linkerd-proxy", "env"]);
        assert!(args(&[]).is_empty());
    }
}
