//! `tap`: prints the requests of a running proxy as they happen.

mod connection;
mod line;
mod screen;

use crate::{config::EXIT_USAGE, runtime, tap::TapFields};
use connection::TapConnection;
use screen::Screen;
use serde_json::Value;
use std::{io, net::SocketAddr, process::ExitCode, time::Duration};

/// The requests to print.
#[derive(clap::Args, Debug)]
pub struct TapArgs {
    /// The admin server of the proxy, on this host.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4191")]
    admin: SocketAddr,
    /// inbound or outbound; both by default.
    #[arg(long, value_name = "DIRECTION")]
    direction: Option<String>,
    /// The method, such as GET.
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// The beginning of the path, such as /api.
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// The authority, such as web or web:8080; without a port, any.
    #[arg(long, value_name = "NAME")]
    authority: Option<String>,
    /// The scheme: http or https.
    #[arg(long, value_name = "SCHEME")]
    scheme: Option<String>,
    /// The client: an IP address, a network such as 10.0.0.0/8, an address with its port, or :PORT.
    #[arg(long, value_name = "ADDR")]
    from: Option<String>,
    /// The endpoint, in the same forms.
    #[arg(long, value_name = "ADDR")]
    to: Option<String>,
    /// A label of the endpoint. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    to_label: Vec<String>,
    /// A label of the route. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    route_label: Vec<String>,
    /// Prints headers and trailers, too; credentials among them without their values.
    #[arg(long)]
    headers: bool,
    /// Ends after so many requests.
    #[arg(long, value_name = "N")]
    max: Option<String>,
    /// The most requests in a second; further ones are left out, and counted. 100 by default.
    #[arg(long, value_name = "N")]
    max_rps: Option<String>,
    /// Prints each event as a line of JSON: request, response, end.
    #[arg(long)]
    json: bool,
}

/// Prints requests until the limit, the end of the proxy, or Ctrl-C.
pub fn tap(args: TapArgs) -> ExitCode {
    let (admin, json) = (args.admin, args.json);
    let fields = args.into_fields();
    if let Err(invalid) = fields.check(String::new()) {
        // The parameters are named after the options.
        let option = invalid.parameter.replace("limit", "max").replace('_', "-");
        eprintln!(
            "error: --{option}: {:?} is not {}",
            invalid.value, invalid.expected
        );
        return ExitCode::from(EXIT_USAGE);
    }
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(admin, &fields, json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(TapFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The failure of a tap.
#[derive(Debug, thiserror::Error)]
enum TapFailure {
    #[error(
        "the admin server of a proxy does not answer at {0}: {1}; --admin sets another address"
    )]
    Unanswered(SocketAddr, String),
    #[error("the proxy has ended the tap: {0}")]
    Ended(String),
    #[error("{0}")]
    Output(#[from] io::Error),
}

async fn run(admin: SocketAddr, fields: &TapFields, json: bool) -> Result<(), TapFailure> {
    let parameters = fields.to_parameters();
    let opening = TapConnection::open(admin, &parameters);
    let mut connection = match tokio::time::timeout(OPEN_WITHIN, opening).await {
        Ok(opened) => opened.map_err(|error| TapFailure::Unanswered(admin, error))?,
        Err(_) => {
            let late = format!("no answer within {OPEN_WITHIN:?}");
            return Err(TapFailure::Unanswered(admin, late));
        }
    };
    eprintln!("Requests of the proxy at {admin}, until Ctrl-C:");
    let mut screen = Screen::new(json);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let line = tokio::select! {
            line = connection.line() => line.map_err(TapFailure::Ended)?,
            _ = ticks.tick() => {
                screen.tick()?;
                continue;
            }
        };
        let event: Value = serde_json::from_slice(&line)
            .map_err(|error| TapFailure::Ended(format!("a line is no JSON: {error}")))?;
        screen.event(&event)?;
        match (event["event"].as_str(), event["reason"].as_str()) {
            (Some("closed"), Some("limit")) => return Ok(()),
            (Some("closed"), reason) => {
                return Err(TapFailure::Ended(reason.unwrap_or_default().to_owned()));
            }
            _ => {}
        }
    }
}

impl TapArgs {
    fn into_fields(self) -> TapFields {
        TapFields {
            direction: self.direction,
            method: self.method,
            scheme: self.scheme,
            authority: self.authority,
            path: self.path,
            from: self.from,
            to: self.to,
            to_labels: self.to_label,
            route_labels: self.route_label,
            headers: self.headers.then(|| "true".to_owned()),
            limit: self.max,
            max_rps: self.max_rps,
        }
    }
}

/// The proxy answers at once, or not at all.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Interval at which requests that have not ended are looked at.
const TICK: Duration = Duration::from_millis(500);
