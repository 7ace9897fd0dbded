//! The running proxies of a workload, measured as one.

use crate::{
    cpu,
    error::{Error, Result},
    measure::proxy_cores,
    net::PROXY_USER,
    process::{Program, Running},
};
use std::{path::Path, time::Instant};

/// The only proxy, or the proxies of the backends and of the clients. Dropping this ends them.
pub struct Proxies {
    running: Vec<Running>,
    /// The start of the first process.
    pub started: Instant,
}

impl Proxies {
    /// Starts programs on the cores of the proxies; their output goes to files named after the subject.
    pub fn start(programs: &[Program], workers: usize, scratch: &Path, name: &str) -> Result<Self> {
        let started = Instant::now();
        let start = |(number, program): (usize, &Program)| {
            let log = match number {
                0 => scratch.join(format!("{name}.log")),
                _ => scratch.join(format!("{name}-{number}.log")),
            };
            program.start(&proxy_cores(workers), Some(PROXY_USER), &log)
        };
        let running = programs.iter().enumerate().map(start);
        Ok(Self {
            running: running.collect::<Result<_>>()?,
            started,
        })
    }

    /// The CPU time of the processes, in nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        self.pids().map(cpu::nanoseconds).sum()
    }

    /// The memory of the processes, in bytes.
    pub fn rss(&self) -> u64 {
        self.pids().map(cpu::rss).sum()
    }

    /// The process ids.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().map(Running::pid)
    }

    /// Whether one of the processes has ended.
    pub fn has_ended(&mut self) -> bool {
        self.running.iter_mut().any(Running::has_ended)
    }

    /// An error with the ends of their logs.
    pub fn failed(&self, reason: &str) -> Error {
        let failed = |reason: String, running: &Running| running.failed(&reason).to_string();
        let all = self.running.iter().fold(reason.to_owned(), failed);
        Error::Other(all)
    }

    /// The processes.
    pub fn into_running(self) -> Vec<Running> {
        self.running
    }
}
