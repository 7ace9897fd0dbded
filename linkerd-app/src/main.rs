//! The binary `linkerd-proxy`.

#[path = "main/manual.rs"]
mod manual;
#[path = "main/pod.rs"]
mod pod;
#[path = "main/tips.rs"]
mod tips;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use linkerd_app::{
    cli,
    config::{EXIT_USAGE, Env, PrintedRequests},
    explain::QueryFields,
};
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A service-mesh data-plane proxy. Without a command it runs as a sidecar, configured by the environment alone.
#[derive(Parser)]
#[command(name = "linkerd-proxy", version = linkerd_app::process::VERSION, about)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the proxy; with --mesh it brings a control plane of its own.
    Run {
        /// A file of services: the proxy needs no other control plane. See linkerd-control/README.md.
        #[arg(long, value_name = "FILE")]
        mesh: Option<PathBuf>,
        #[command(flatten)]
        print: PrintArgs,
    },
    /// Serves a file of services to proxies that run without --mesh.
    Control(ControlArgs),
    /// Checks what the proxy needs before it starts, or a running one, and names the fix of each failure.
    ///
    /// Before the start: environment, files and their permissions, trust anchors, listeners, controllers (name, connection,
    /// TLS), clock, redirection. With --admin: readiness, version, environment, identity, control plane, listeners, recent
    /// failures, losses. It starts nothing, and takes less than 30 s. The exit code is 0 if all checks pass, also with
    /// warnings; 64 if the configuration or the usage is wrong; 1 if something else fails.
    Check(cli::CheckArgs),
    /// Prints which route and backends a request would meet, and why not the others, without sending it.
    ///
    /// The exit code is 0 if a route takes the request, 1 if none does or the proxy does not answer, 64 on bad usage.
    Explain(ExplainArgs),
    /// Prints the requests of a running proxy as they happen, a line for each at its end.
    ///
    /// A line has the time, direction, request, status or the cause of a failure, latency, bytes, client, endpoint and its
    /// encryption. A request that has not ended is printed when it is two seconds old. All conditions must be met. What comes
    /// faster than this command reads or --max-rps allows is left out, and no request waits for it. The exit code is 0, 1 if
    /// the proxy does not answer or ends, 64 on bad usage.
    Tap(Box<cli::TapArgs>),
    /// Adds the sidecar to Kubernetes manifests, and prints them.
    ///
    /// Workloads get an init container, the proxy as a native sidecar (Kubernetes 1.30 or later; `--config
    /// proxy-enable-native-sidecar=false` makes it a container), volumes, labels and annotations; all other text stays as it is. The
    /// annotation linkerd.io/inject (enabled, ingress, disabled) of a pod template, or else of its namespace among the
    /// manifests, decides; without one the workload is injected. Annotations config.linkerd.io/* of either set the proxy up.
    /// Skipped workloads are named on standard error. The exit code is 0, 64 if a manifest or an option is wrong, or 1 if
    /// a file cannot be read; then nothing is printed.
    Inject(Box<cli::InjectArgs>),
    /// Removes the sidecar from Kubernetes manifests, and prints them.
    ///
    /// It removes what inject adds. The exit codes are those of inject.
    Uninject(cli::ManifestArgs),
    /// Redirects the traffic of this network namespace to the proxy, by iptables.
    ///
    /// The rules are set as a whole or not at all, and again without harm. Needs the capabilities NET_ADMIN and NET_RAW. The
    /// exit code is 0, or 1 if they cannot be set. The program name linkerd2-proxy-init stands for it.
    Init(pod::InitArgs),
    /// Waits until the proxy of this pod is ready, and then becomes a command.
    ///
    /// The program name linkerd-await stands for it.
    Await(pod::AwaitArgs),
    /// Waits for a time, as the injector's hook before the proxy stops.
    #[command(hide = true)]
    Sleep(pod::SleepArgs),
    /// Prints the effective configuration, and where each value comes from.
    ///
    /// The exit code is 0, or 64 if the configuration or the mesh file is wrong.
    Env(cli::EnvArgs),
    /// Prints completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Prints the manual page, in roff.
    Man,
    /// Shows the proxy at work on this machine: a control plane, four backends, real traffic.
    Quickstart {
        /// Runs for a few seconds without a terminal; the exit code shows whether every request succeeded.
        #[arg(long)]
        once: bool,
        /// Requests a second.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        rate: u32,
        /// How long --once runs, in seconds.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
        /// The mesh file; written if it does not exist.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        print: PrintArgs,
    },
}

/// Switches that print requests.
#[derive(clap::Args)]
struct PrintArgs {
    /// Prints a line for each request to standard error: where it went, what it got, how long it took, and why it failed.
    #[arg(long)]
    access_log: bool,
    /// Prints the trace of each request to standard error: when which endpoint had it, and how each attempt ended.
    #[arg(long)]
    trace: bool,
}

impl From<PrintArgs> for PrintedRequests {
    fn from(args: PrintArgs) -> Self {
        let PrintArgs { access_log, trace } = args;
        Self { access_log, trace }
    }
}

/// The controller, and the certificates that it issues.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("authority").args(["trust_anchor", "write_trust_anchor"]))]
struct ControlArgs {
    /// A file of services. See linkerd-control/README.md.
    #[arg(long, value_name = "FILE")]
    mesh: PathBuf,
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8086")]
    listen: SocketAddr,
    /// Issues certificates to proxies by this authority: its certificate in PEM, or several while one replaces another.
    #[arg(long, value_name = "FILE", requires = "trust_anchor_key")]
    trust_anchor: Option<PathBuf>,
    /// The private key of the authority, in PEM. SIGHUP reads it and its certificates again.
    #[arg(long, value_name = "FILE", requires = "trust_anchor")]
    trust_anchor_key: Option<PathBuf>,
    /// Issues certificates to proxies by a new authority, whose certificate is written to this file.
    #[arg(long, value_name = "FILE")]
    write_trust_anchor: Option<PathBuf>,
    /// Serves over TLS, as this name, with a certificate of the authority. May be repeated.
    #[arg(long, value_name = "NAME", requires = "authority")]
    tls_name: Vec<String>,
    /// Verifies the tokens of proxies by this JSON Web Key Set, which is followed: a certificate is for the name in the token
    /// alone. `kubectl get --raw /openid/v1/jwks` prints that of a cluster.
    #[arg(long, value_name = "FILE", requires = "authority")]
    token_keys: Option<PathBuf>,
    /// The audience (`aud`) of tokens.
    #[arg(
        long,
        value_name = "AUDIENCE",
        default_value = "identity.l5d.io",
        requires = "token_keys"
    )]
    token_audience: String,
    /// The issuer (`iss`) of tokens. By default any with a key of the set.
    #[arg(long, value_name = "ISSUER", requires = "token_keys")]
    token_issuer: Option<String>,
    /// Tokens of Kubernetes service accounts permit ACCOUNT.NAMESPACE.serviceaccount.identity.DOMAIN. The domain is the
    /// namespace of the control plane and the trust domain, such as linkerd.cluster.local.
    #[arg(long, value_name = "DOMAIN", requires = "token_keys")]
    service_account_domain: Option<String>,
    /// Issues any name to any client that reaches an address beyond loopback: each of them can be every workload.
    #[arg(long, requires = "authority", conflicts_with = "token_keys")]
    insecure_any_identity: bool,
    /// Serves /live, /ready and /metrics at this address, such as 0.0.0.0:9990.
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
}

impl ControlArgs {
    fn run(self, env: &Env) -> ExitCode {
        let files = self.trust_anchor.zip(self.trust_anchor_key);
        let files =
            files.map(|(certificates, key)| cli::AuthoritySource::Files { certificates, key });
        let generated = self.write_trust_anchor;
        let generated =
            generated.map(|certificate| cli::AuthoritySource::Generated { certificate });
        let tokens = self.token_keys.map(|keys| cli::TokenOptions {
            keys,
            audience: self.token_audience,
            issuer: self.token_issuer,
            service_account_domain: self.service_account_domain,
        });
        let options = cli::ControlOptions {
            mesh: self.mesh,
            listen: self.listen,
            authority: files.or(generated),
            tls_names: self.tls_name,
            tokens,
            any_identity: self.insecure_any_identity,
            admin_listen: self.admin_listen,
        };
        cli::control(env, options)
    }
}

/// The request to explain.
#[derive(clap::Args)]
struct ExplainArgs {
    /// The method, such as GET.
    #[arg(required_unless_present = "port")]
    method: Option<String>,
    /// The URL, such as http://web/path.
    #[arg(required_unless_present = "port")]
    url: Option<String>,
    /// The port of the application: the request is an inbound one, of a hypothetical client.
    #[arg(long, value_name = "PORT", conflicts_with_all = ["target", "http", "mesh"], requires = "client")]
    port: Option<String>,
    /// The IP address of an inbound request's client.
    #[arg(long, value_name = "IP", requires = "port")]
    client: Option<String>,
    /// The identity of that client; empty for TLS of the mesh without a certificate.
    #[arg(long, value_name = "IDENTITY", requires = "port")]
    identity: Option<String>,
    /// A header. May be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The target of the connection, if it is not the authority of the URL; an address for a redirected connection.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// The version of HTTP, 1 or 2. By default that of the policy, or else 1.
    #[arg(long, value_name = "VERSION")]
    http: Option<String>,
    /// The admin server of a running proxy.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4191")]
    admin: SocketAddr,
    /// A file of services, in place of a running proxy. Nothing is started.
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    mesh: Option<PathBuf>,
    /// Prints the whole explanation as JSON.
    #[arg(long)]
    json: bool,
}

impl ExplainArgs {
    fn run(self) -> ExitCode {
        let source = match self.mesh {
            Some(file) => cli::ExplainSource::Mesh(file),
            None => cli::ExplainSource::Admin(self.admin),
        };
        let fields = QueryFields {
            method: self.method,
            url: self.url,
            headers: self.header,
            target: self.target,
            version: self.http,
            // Who asks for it on this host wants the answer for the target, used or not.
            discover: self.port.is_none().then(|| "1".to_owned()),
            port: self.port,
            client: self.client,
            identity: self.identity,
        };
        cli::explain(&fields, source, self.json)
    }
}

fn main() -> ExitCode {
    let env = Env::from_process();
    let args = pod::by_program(std::env::args_os().collect());
    if args.len() <= 1 {
        // A sidecar has no arguments: the code that reads them does not become resident.
        return cli::run(env, None, PrintedRequests::default());
    }
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return unparsed(error),
    };
    match args.command {
        None => cli::run(env, None, PrintedRequests::default()),
        Some(Command::Run { mesh, print }) => cli::run(env, mesh, print.into()),
        Some(Command::Control(args)) => args.run(&env),
        Some(Command::Check(args)) => cli::check(env, args),
        Some(Command::Explain(args)) => args.run(),
        Some(Command::Tap(args)) => cli::tap(*args),
        Some(Command::Inject(args)) => cli::inject_manifests(&args),
        Some(Command::Uninject(args)) => cli::uninject_manifests(&args),
        Some(Command::Init(args)) => args.run(),
        Some(Command::Await(args)) => args.run(&env),
        Some(Command::Sleep(args)) => args.run(),
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "linkerd-proxy", &mut text);
            print(&text)
        }
        Some(Command::Man) => match manual::manual(Args::command()) {
            Ok(page) => print(&page),
            Err(error) => failed(&error),
        },
        Some(Command::Env(args)) => cli::print_env(env, &args),
        Some(Command::Quickstart {
            once,
            rate,
            seconds,
            file,
            print,
        }) => cli::quickstart(linkerd_app::quickstart::QuickstartOptions {
            once,
            rate,
            seconds,
            file,
            printed: print.into(),
        }),
    }
}

/// Prints an error of the command line, or the help. The commands `check`, `explain` and `tap`, whose exit codes scripts read,
/// end with 64.
fn unparsed(error: clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let error = tips::with_tip(error, &words);
    let is_read = words
        .get(1)
        .is_some_and(|name| ["check", "explain", "tap"].contains(&&**name));
    if error.use_stderr() && is_read {
        // Without standard error the exit code is all there is.
        let _ = error.print();
        return ExitCode::from(EXIT_USAGE);
    }
    error.exit()
}

/// Prints a generated text. A closed pipe, as of `head`, is no failure.
fn print(text: &[u8]) -> ExitCode {
    match io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &io::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
