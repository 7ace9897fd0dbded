//! `counts`: costs that do not depend on the machine, compared with a budget.
//!
//! System calls, instructions and allocations are counted over sequential requests on one connection, so that each run
//! counts the same. Memory is that of the process.

mod budget;
mod callgrind;
mod futures;
mod order;
mod syscalls;

use crate::{
    cli::Counts,
    compare::backend,
    control::Control,
    cpu,
    error::{Context, Error, Result},
    http::Client,
    load::requests_h2,
    measure::{Bench, Metric},
    net,
    process::Program,
    programs::Programs,
    proxies::{self, FLOOR, OURS, Setup, Subject},
    started::Proxies,
    workload::{self, Protocol, Workload},
};
use budget::Budget;
use callgrind::Cost;
use order::{Order, Start};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Counts by name.
pub type Counted = BTreeMap<String, f64>;

/// Counts, prints, and fails above the budget. Runs inside the namespace.
pub fn run(options: &Counts, scratch: &Path) -> Result<u8> {
    let text = fs::read_to_string(&options.budget).context(options.budget.display().to_string())?;
    let budget = Budget::parse(&text)?;
    net::prepare()?;
    let programs = Programs::place(scratch)?;
    let control = Control::start(scratch)?;
    let _backend = backend(&programs, scratch)?;
    let counting = Counting {
        control: &control,
        scratch,
        profiles: options.profiles.as_deref(),
        order: options.order.is_some().then(RefCell::default),
    };
    let mut all = BTreeMap::new();
    for subject in proxies::all(&programs, &[])? {
        if [FLOOR, OURS].contains(&subject.name()) {
            all.insert(subject.name().to_owned(), counting.count(subject.as_ref())?);
        }
    }
    let floor = all.remove(FLOOR).unwrap_or_default();
    let ours = all.remove(OURS).unwrap_or_default();
    if let (Some(file), Some(order)) = (&options.order, &counting.order) {
        let mut order = order.borrow_mut();
        order.count_instances(&order::symbols(&programs.path("linkerd-proxy"))?);
        if order.is_empty() {
            let reason =
                "the order of functions needs valgrind (on Debian: apt-get install valgrind)";
            return Err(Error::Other(reason.to_owned()));
        }
        fs::write(file, order.script()).context(file.display().to_string())?;
    }
    if options.update {
        fs::write(&options.budget, budget.updated(&ours))
            .context(options.budget.display().to_string())?;
    }
    print!("{}", budget.table(&ours, &floor));
    let exceeded = budget.exceeded(&ours);
    if exceeded.is_empty() || options.update {
        return Ok(0);
    }
    Err(Error::Other(format!(
        "the budget is exceeded by {}; reduce them, or explain the growth and run `counts --update`",
        exceeded.join(", ")
    )))
}

/// Common parts of all counts.
struct Counting<'a> {
    control: &'a Control,
    scratch: &'a Path,
    /// Directory for profiles.
    profiles: Option<&'a Path>,
    /// Functions of this workspace's proxy that ran, if requested.
    order: Option<RefCell<Order>>,
}

impl Counting<'_> {
    fn count(&self, subject: &dyn Subject) -> Result<Counted> {
        let mut counted = Counted::new();
        for workload in workload::ALL {
            match workload.name {
                "meshed-h1" if self.order.is_some() => {
                    self.startup(Start::Meshed, subject, workload)?;
                }
                "meshed-h2" if self.order.is_some() => {}
                "h1" | "h2" | "meshed-h1" | "meshed-h2" => {
                    self.syscalls(subject, workload, &mut counted)?;
                    self.instructions(subject, workload, &mut counted)?;
                    if workload.name == "meshed-h1" {
                        self.meshed_memory(subject, workload, &mut counted)?;
                    }
                }
                "h1-policy" | "h2-policy" if subject.name() == OURS => {
                    self.instructions(subject, workload, &mut counted)?;
                }
                "idle" => {
                    self.startup(Start::Plain, subject, workload)?;
                    self.memory(subject, workload, &mut counted)?;
                }
                _ => {}
            }
            if workload.name == "h1" && subject.name() == OURS {
                counted.append(&mut self.futures(subject, workload)?);
                if self.order.is_none() {
                    self.observed(subject, workload, &mut counted)?;
                }
            }
        }
        Ok(counted)
    }

    fn syscalls(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        counted: &mut Counted,
    ) -> Result<()> {
        if !syscalls::is_installed() {
            println!("skipped: system calls need strace (on Debian: apt-get install strace)");
            return Ok(());
        }
        let proxy = self.start(subject, workload, |_, program| program)?;
        self.requests(workload, WARM_UP)?;
        let calls = syscalls::count(&proxy, self.scratch, || self.requests(workload, TRACED))?;
        let name = format!("{}-system-calls-per-request", workload.name);
        counted.insert(name, calls / f64::from(TRACED));
        Ok(())
    }

    fn instructions(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        counted: &mut Counted,
    ) -> Result<()> {
        if !callgrind::is_installed() {
            println!("skipped: instructions need valgrind (on Debian: apt-get install valgrind)");
            return Ok(());
        }
        let cost = self.cost(subject, workload, workload.name, &[])?;
        if let Some(order) = self.order.as_ref().filter(|_| subject.name() == OURS) {
            let profile = callgrind::read(&self.profile(0))?;
            order.borrow_mut().add(&profile, "linkerd-proxy");
        }
        let name = |what| format!("{}-{what}-per-request", workload.name);
        counted.insert(name("instructions"), each(cost.instructions));
        counted.insert(name("allocations"), each(cost.allocations));
        Ok(())
    }

    /// The instructions that each observer adds to a request, alone.
    fn observed(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        counted: &mut Counted,
    ) -> Result<()> {
        let plain = format!("{}-instructions-per-request", workload.name);
        let Some(plain) = counted.get(&plain).copied() else {
            return Ok(());
        };
        for (name, env) in OBSERVERS {
            let profile = format!("{}-{name}", workload.name);
            let cost = self.cost(subject, workload, &profile, env)?;
            let added = each(cost.instructions) - plain;
            counted.insert(format!("{name}-instructions-per-request"), added);
        }
        Ok(())
    }

    /// The cost of requests to proxies with further variables. Profiles are stored under `name`.
    fn cost(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        name: &str,
        env: &[(&str, &str)],
    ) -> Result<Cost> {
        let run = |requests| {
            let proxies = self.start(subject, workload, |number, program| {
                let set = |program: Program, (name, value): &(&str, &str)| program.env(name, value);
                let program = env.iter().fold(program, set);
                callgrind::under(program, &self.profile(number), self.order.is_none())
            })?;
            self.requests(workload, requests)?;
            callgrind::finish(proxies, |number| self.profile(number))
        };
        let few = run(WARM_UP)?;
        let cost = run(WARM_UP + SIMULATED)?.less(few);
        if let Some(directory) = self.profiles {
            let name = format!("{}.{name}", subject.name());
            let suffixes = [".callgrind", ".1.callgrind"].into_iter();
            for (number, suffix) in suffixes.take(workload.proxies()).enumerate() {
                let kept = directory.join(format!("{name}{suffix}"));
                fs::copy(self.profile(number), &kept).context(kept.display().to_string())?;
            }
        }
        Ok(cost)
    }

    /// The path of a proxy's profile.
    fn profile(&self, number: usize) -> PathBuf {
        self.scratch.join(format!("callgrind-{number}.out"))
    }

    /// Adds the functions that run until the first response to the order: the memory after the start is measured then.
    fn startup(&self, start: Start, subject: &dyn Subject, workload: &Workload) -> Result<()> {
        let Some(order) = self.order.as_ref().filter(|_| subject.name() == OURS) else {
            return Ok(());
        };
        let proxies = self.start(subject, workload, |number, program| {
            callgrind::under(program, &self.profile(number), false)
        })?;
        callgrind::finish(proxies, |number| self.profile(number))?;
        for number in 0..workload.proxies() {
            let profile = callgrind::read(&self.profile(number))?;
            let mut order = order.borrow_mut();
            order.add_startup(start, &profile, "linkerd-proxy");
        }
        Ok(())
    }

    /// The sizes of futures after some requests: the first requests open connections, and have larger ones.
    fn futures(&self, subject: &dyn Subject, workload: &Workload) -> Result<Counted> {
        let proxy = self.start(subject, workload, |_, program| program)?;
        self.requests(workload, WARM_UP)?;
        futures::sizes().map_err(|error| proxy.failed(&error.to_string()))
    }

    fn memory(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        counted: &mut Counted,
    ) -> Result<()> {
        let bench = Bench {
            control: self.control,
            scratch: self.scratch,
            seconds: 1,
            warm_up: false,
        };
        let measured = bench.measure(subject, workload)?.unwrap_or_default();
        for (metric, name) in [
            (Metric::RssStart, "idle-megabytes"),
            (Metric::RssPerConnection, "kilobytes-per-idle-connection"),
        ] {
            if let Some(value) = measured.get(&metric) {
                counted.insert(name.to_owned(), *value);
            }
        }
        Ok(())
    }

    /// The memory of the larger meshed proxy after its first response.
    fn meshed_memory(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        counted: &mut Counted,
    ) -> Result<()> {
        let proxies = self.start(subject, workload, |_, program| program)?;
        let largest = proxies.pids().map(cpu::rss).max().unwrap_or_default();
        counted.insert("meshed-idle-megabytes".to_owned(), largest as f64 / 1e6);
        Ok(())
    }

    /// Starts the proxies of a workload, optionally each under another program, and waits until they serve.
    fn start(
        &self,
        subject: &dyn Subject,
        workload: &Workload,
        wrap: impl Fn(usize, Program) -> Program,
    ) -> Result<Proxies> {
        self.control.describe(workload)?;
        let setup = Setup::new(workload, 1, self.scratch, self.control);
        let programs = subject.programs(&setup)?.into_iter().enumerate();
        let programs: Vec<_> = programs.map(|(number, it)| wrap(number, it)).collect();
        let mut proxy = Proxies::start(&programs, 1, self.scratch, subject.name())?;
        let mut tries = 0;
        while let Err(error) = self.requests(workload, 1) {
            tries += 1;
            if tries == START_TRIES || proxy.has_ended() {
                return Err(proxy.failed(&error.to_string()));
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        Ok(proxy)
    }

    /// Makes sequential requests over one connection.
    fn requests(&self, workload: &Workload, count: u32) -> Result<()> {
        let to = workload.target(false);
        if workload.protocol() == Protocol::Http2 {
            return requests_h2(to, false, count, self.scratch).map(drop);
        }
        let mut client = Client::connect(to, "/")?;
        (0..count).try_for_each(|_| client.exchange().map(drop))
    }
}

/// The share of one simulated request.
fn each(total: u64) -> f64 {
    total as f64 / f64::from(SIMULATED)
}

/// Observers of requests, and the variables that enable them.
const OBSERVERS: [(&str, &[(&str, &str)]); 2] = [
    (
        "access-log",
        &[
            ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "full"),
            ("LINKERD_PROXY_ACCESS_LOG_OUTPUT", "/dev/null"),
        ],
    ),
    (
        "sampled-out-trace",
        &[
            ("LINKERD_PROXY_TRACE_OUTPUT", "/dev/null"),
            ("LINKERD_PROXY_TRACE_SAMPLE", "0"),
        ],
    ),
];

/// Requests before a measurement: enough for connections to all endpoints.
const WARM_UP: u32 = 200;
/// Traced requests: enough to hide one-time costs, such as the connection.
const TRACED: u32 = 2000;
const SIMULATED: u32 = 1000;
/// Attempts to reach a starting proxy: under a simulator a start takes seconds.
const START_TRIES: u32 = 600;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
