//! `compare`: proxies side by side.

use crate::{
    cli::Compare,
    control::Control,
    error::{Context, Error, Result},
    measure::{Bench, Measured, Metric},
    net,
    process::{Program, Running, require},
    programs::Programs,
    proxies::{self, DIRECT, FLOOR, OURS, RELAY, Subject},
    report::{self, Report, Row, Table},
    stats::Summary,
    workload::{self, BACKEND_HTTP1, BACKEND_HTTP2, Workload},
};
use std::{collections::BTreeMap, fs, io::IsTerminal, path::Path};

/// Workloads that cover the harness, without `idle`, which waits for 20 s at each subject: `counts` measures memory, too.
const QUICK: &[&str] = &[
    "h1",
    "h2",
    "grpc-unary",
    "bulk",
    "latency",
    "churn",
    "meshed-h1",
];

/// Checks the requirements before a namespace is created.
pub fn check(options: &Compare) -> Result<()> {
    require("wrk", "wrk")?;
    require("h2load", "nghttp2-client")?;
    let known = |name: &&String| {
        **name != workload::SCALE && workload::ALL.iter().all(|known| known.name != **name)
    };
    if let Some(unknown) = options.workload.iter().find(known) {
        let names: Vec<_> = workload::ALL.iter().map(|known| known.name).collect();
        return Err(Error::Other(format!(
            "there is no workload {unknown}; there are {}",
            names.join(", ")
        )));
    }
    Ok(())
}

/// Measures, prints and writes. Runs inside the namespace.
pub fn run(options: &Compare, scratch: &Path) -> Result<()> {
    net::prepare()?;
    let programs = Programs::place(scratch)?;
    let mut only = options.only.clone();
    if options.quick && only.is_empty() {
        only.extend([DIRECT, RELAY, FLOOR, OURS].map(str::to_owned));
    }
    let subjects = chosen(proxies::all(&programs, &options.build)?, &only)?;
    let control = Control::start(scratch)?;
    let _backend = backend(&programs, scratch)?;
    let bench = Bench {
        control: &control,
        scratch,
        seconds: options.seconds(),
        warm_up: !options.quick,
    };
    if options.quick {
        println!("{QUICK_NOTE}\n");
    }
    let mut tables = Vec::new();
    let mut failures = Vec::new();
    for workload in workloads(options) {
        let table = measure(&bench, options, &subjects, workload, &mut failures);
        println!("{}", report::text(&table));
        tables.push(table);
    }
    let report = Report::new(options.rounds(), options.seconds(), tables);
    if let Some(file) = &options.json {
        write(file, &report.json()?)?;
    }
    if let Some(file) = &options.svg {
        write(file, &report::svg(&report))?;
    }
    // Failures of other proxies are no failure of this harness.
    failures.retain(|(subject, _)| [DIRECT, FLOOR, OURS].contains(&subject.as_str()));
    match failures.into_iter().next() {
        None => Ok(()),
        Some((_, failure)) => Err(failure),
    }
}

fn chosen(all: Vec<Box<dyn Subject>>, only: &[String]) -> Result<Vec<Box<dyn Subject>>> {
    let has = |name: &String| all.iter().any(|subject| subject.name() == name);
    if let Some(unknown) = only.iter().find(|name| !has(name)) {
        let names: Vec<_> = all.iter().map(|subject| subject.name()).collect();
        return Err(Error::Other(format!(
            "{unknown} is not here; there are {}",
            names.join(", ")
        )));
    }
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|chosen| chosen == name);
    Ok(all
        .into_iter()
        .filter(|subject| is_chosen(subject.name()))
        .collect())
}

fn workloads(options: &Compare) -> impl Iterator<Item = &'static Workload> {
    workload::ALL.iter().filter(
        |workload| match (options.workload.is_empty(), options.quick) {
            (true, true) => QUICK.contains(&workload.name),
            (true, false) => !workload.is_scale(),
            (false, _) => options.workload.iter().any(|name| {
                name == workload.name || (name == workload::SCALE && workload.is_scale())
            }),
        },
    )
}

/// Starts the backend, which serves all endpoints; it shares the cores of the load.
pub fn backend(programs: &Programs, scratch: &Path) -> Result<Running> {
    let program = Program::new(programs.path("backend"))
        .arg(format_args!("0.0.0.0:{BACKEND_HTTP1}"))
        .arg(format_args!("0.0.0.0:{BACKEND_HTTP2}"));
    let running = program.start(&load_cores(), None, &scratch.join("backend.log"))?;
    let addr = workload::ALL[0].endpoints(0)[0];
    let is_there = || std::net::TcpStream::connect(addr).is_ok();
    for _ in 0..BACKEND_TRIES {
        if is_there() {
            return Ok(running);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(running.failed("it does not listen"))
}

/// The cores of load and backends: all but the first one, which is for the proxy.
pub fn load_cores() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Processes in the namespace can use only these.
    match net::inside() {
        Some(_) => (1..=cores)
            .map(|core| core.to_string())
            .collect::<Vec<_>>()
            .join(","),
        None => format!("1-{}", cores.max(2) - 1),
    }
}

/// Rounds are interleaved, so that other activity of the machine affects all subjects alike.
fn measure(
    bench: &Bench<'_>,
    options: &Compare,
    subjects: &[Box<dyn Subject>],
    workload: &Workload,
    failures: &mut Vec<(String, Error)>,
) -> Table {
    let mut samples: BTreeMap<(usize, Metric), Vec<f64>> = BTreeMap::new();
    for round in 1..=options.rounds() {
        for (number, subject) in subjects.iter().enumerate() {
            progress(&format!(
                "{} {round}/{} {}",
                workload.name,
                options.rounds(),
                subject.name()
            ));
            match bench.measure(subject.as_ref(), workload) {
                Ok(measured) => {
                    for (metric, value) in measured.unwrap_or_else(Measured::new) {
                        samples.entry((number, metric)).or_default().push(value);
                    }
                }
                Err(error) => {
                    progress("");
                    eprintln!("{} at {}: {error}", subject.name(), workload.name);
                    failures.push((subject.name().to_owned(), error));
                }
            }
        }
    }
    progress("");
    let row = |(number, subject): (usize, &dyn Subject)| Row {
        subject: subject.name().to_owned(),
        metrics: samples
            .range((number, Metric::FIRST)..=(number, Metric::LAST))
            .filter_map(|((_, metric), samples)| Some((*metric, Summary::new(samples.clone())?)))
            .collect(),
    };
    Table {
        workload: workload.name.to_owned(),
        about: workload.about.to_owned(),
        rows: subjects
            .iter()
            .map(AsRef::as_ref)
            .enumerate()
            .map(row)
            .collect(),
    }
}

/// Shows the progress at a terminal, on a line that is overwritten.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{text:40}\r");
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).context(file.display().to_string())
}

/// The note on a quick run, whose figures could be mistaken for a measurement.
const QUICK_NOTE: &str = "A quick run: it shows that the harness works. A short round without warm-up is no measurement, \
                          and no figure in it fails.";
const BACKEND_TRIES: usize = 500;
