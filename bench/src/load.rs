//! Load from wrk and h2load, and their results.

use crate::{
    error::{Context, Error, Result},
    process::{output, require},
    workload::{MESSAGE, MESSAGES},
};
use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

/// The result of a load generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completed {
    /// Requests (or messages, or bytes) that were completed.
    pub count: f64,
    /// The duration.
    pub seconds: f64,
    /// The number of failures.
    pub failed: f64,
}

impl Completed {
    /// Refuses a result with failures, except for a few at the end of the time.
    pub fn check(self, who: &'static str) -> Result<Self> {
        match self.count > 0.0 && self.failed <= self.count * MAX_FAILED {
            true => Ok(self),
            false => Err(Error::unexpected(who, &format!("{self:?}"))),
        }
    }
}

/// HTTP/1 over kept connections. A body of some bytes is sent if it is not empty.
pub fn wrk(
    to: SocketAddr,
    path: &str,
    body: usize,
    connections: usize,
    seconds: u64,
    scratch: &Path,
) -> Result<Completed> {
    let mut command = Command::new(require("wrk", "wrk")?);
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    if body > 0 {
        let script = scratch.join("post.lua");
        let lua = format!("wrk.method = 'POST'\nwrk.body = string.rep('x', {body})\n");
        fs::write(&script, lua).context("post.lua")?;
        command.arg("-s").arg(script);
    }
    command.arg(format!("http://{to}{path}"));
    let text = output(&mut command, bound(seconds))?;
    parse_wrk(&text)
        .ok_or_else(|| Error::unexpected("wrk", &text))?
        .check("wrk")
}

/// HTTP/2 over 16 connections of 10 streams; with gRPC's headers and a message if `grpc`.
pub fn h2load(to: SocketAddr, grpc: bool, seconds: u64, scratch: &Path) -> Result<Completed> {
    let path = if grpc { GRPC } else { "/" };
    let text = run_h2load(to, path, grpc, seconds, scratch)?;
    parse_h2load(&text)
        .ok_or_else(|| Error::unexpected("h2load", &text))?
        .check("h2load")
}

/// HTTP/2 as above, with gRPC calls that are answered with streams of messages, which are counted.
pub fn h2load_streams(to: SocketAddr, seconds: u64, scratch: &Path) -> Result<Completed> {
    let path = format!("/stream/{MESSAGES}");
    let text = run_h2load(to, &path, true, seconds, scratch)?;
    parse_h2load_streams(&text)
        .ok_or_else(|| Error::unexpected("h2load", &text))?
        .check("h2load")
}

fn run_h2load(
    to: SocketAddr,
    path: &str,
    grpc: bool,
    seconds: u64,
    scratch: &Path,
) -> Result<String> {
    let mut command = Command::new(require("h2load", "nghttp2-client")?);
    command.args(["-t1", "-c16", "-m10", &format!("-D{seconds}")]);
    if grpc {
        with_grpc(&mut command, scratch)?;
    }
    command.arg(format!("http://{to}{path}"));
    output(&mut command, bound(seconds))
}

/// Sequential requests over one HTTP/2 connection.
pub fn requests_h2(to: SocketAddr, grpc: bool, count: u32, scratch: &Path) -> Result<Completed> {
    let mut command = Command::new(require("h2load", "nghttp2-client")?);
    command.args(["-t1", "-c1", "-m1", "-T5", &format!("-n{count}")]);
    let path = if grpc { GRPC } else { "/" };
    if grpc {
        with_grpc(&mut command, scratch)?;
    }
    command.arg(format!("http://{to}{path}"));
    let text = output(&mut command, bound(60))?;
    parse_h2load(&text)
        .ok_or_else(|| Error::unexpected("h2load", &text))?
        .check("h2load")
}

fn with_grpc(command: &mut Command, scratch: &Path) -> Result<()> {
    let message = scratch.join("message");
    fs::write(&message, [0; 20]).context("message")?;
    command.arg("-d").arg(message);
    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    Ok(())
}

fn parse_wrk(text: &str) -> Option<Completed> {
    let summary = text.lines().find(|line| line.contains(" requests in "))?;
    let mut words = summary.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let seconds = duration(words.nth(2)?.trim_end_matches(','))?;
    let numbers = |line: &str| -> f64 {
        line.split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse::<f64>().ok())
            .sum()
    };
    let failed = text
        .lines()
        .filter_map(|line| {
            let line = line.trim();
            line.strip_prefix("Socket errors:")
                .or_else(|| line.strip_prefix("Non-2xx or 3xx responses:"))
        })
        .map(numbers)
        .sum();
    Some(Completed {
        count,
        seconds,
        failed,
    })
}

fn parse_h2load(text: &str) -> Option<Completed> {
    let finished = text.lines().find_map(|l| l.strip_prefix("finished in "))?;
    let seconds = duration(finished.split(',').next()?)?;
    let requests = text.lines().find_map(|l| l.strip_prefix("requests: "))?;
    let number = |what: &str| -> Option<f64> {
        let part = requests.split(',').find(|part| part.ends_with(what))?;
        part.trim().split(' ').next()?.parse().ok()
    };
    Some(Completed {
        count: number(" succeeded")?,
        seconds,
        failed: number(" failed")? + number(" errored")?,
    })
}

/// Messages are counted by their bytes: messages of streams that are open at the end count, too. With 160 streams of 1,000
/// messages they are a considerable part of a short run.
fn parse_h2load_streams(text: &str) -> Option<Completed> {
    let streams = parse_h2load(text)?;
    let traffic = text.lines().find_map(|l| l.strip_prefix("traffic: "))?;
    let data = traffic.split(", ").find(|part| part.ends_with(" data"))?;
    let (_, data) = data.split_once('(')?;
    let bytes: f64 = data.split(')').next()?.parse().ok()?;
    Some(Completed {
        count: bytes / f64::from(MESSAGE),
        failed: streams.failed * f64::from(MESSAGES),
        ..streams
    })
}

/// A duration in seconds, in the format of both tools: 5.01s, 312.40ms, 98us.
fn duration(text: &str) -> Option<f64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let value: f64 = text[..unit].parse().ok()?;
    let scale = match &text[unit..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Some(value * scale)
}

/// The limit of a tool's run: tools end by themselves, unless they are stuck.
fn bound(seconds: u64) -> Duration {
    Duration::from_secs(seconds + 10)
}

/// The path of a call with one message in the response.
const GRPC: &str = "/grpc";

/// The share of requests that may fail: those cut off at the end of the time.
const MAX_FAILED: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_is_understood() {
        let text = "Running 3s test @ http://10.9.0.100:80/\n  1 threads and 32 connections\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n  127893 requests in 3.10s, 15.85MB read\n  \
                    Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 5\n\
                    Requests/sec:  41255.41\n";
        let completed = parse_wrk(text);
        let expected = Completed {
            count: 127_893.0,
            seconds: 3.10,
            failed: 9.0,
        };
        assert_eq!(completed, Some(expected));
        assert_eq!(
            parse_wrk("unable to connect to 10.9.0.100:80 Connection refused"),
            None
        );
    }

    #[test]
    fn h2load_is_understood() {
        let text = "finished in 3.00s, 50123.33 req/s, 3.54MB/s\n\
                    requests: 150370 total, 150530 started, 150370 done, 150370 succeeded, 2 failed, 1 errored, 0 timeout\n\
                    status codes: 150370 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        let expected = Completed {
            count: 150_370.0,
            seconds: 3.0,
            failed: 3.0,
        };
        assert_eq!(parse_h2load(text), Some(expected));
    }

    #[test]
    fn messages_are_counted_by_their_bytes() {
        let text = "finished in 2.00s, 150.00 req/s, 3.90MB/s\n\
                    requests: 300 total, 460 started, 300 done, 300 succeeded, 1 failed, 0 errored, 0 timeout\n\
                    traffic: 7.80MB (8176000) total, 3.13KB (3210) headers (space savings 95.93%), 4.86MB (5100000) data\n";
        let expected = Completed {
            count: 300_000.0,
            seconds: 2.0,
            failed: 1000.0,
        };
        assert_eq!(parse_h2load_streams(text), Some(expected));
        let without = text.replace("traffic", "other");
        assert_eq!(parse_h2load_streams(&without), None);
    }

    #[test]
    fn many_failures_are_no_measurement() {
        let completed = |failed| Completed {
            count: 1000.0,
            seconds: 1.0,
            failed,
        };
        assert!(completed(2.0).check("wrk").is_ok());
        assert!(completed(20.0).check("wrk").is_err());
    }
}
