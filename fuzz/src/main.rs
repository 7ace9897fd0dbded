//! Runs fuzz targets on the stable compiler: the corpus, and mutations of it. `fuzz/README.md` explains how.

use linkerd_fuzz::{Mutator, TARGETS, Target, corpus};
use parking_lot::Mutex;
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

/// Options of a run.
struct Options {
    seconds: u64,
    seed: u64,
    target: Option<String>,
    input: Option<Vec<u8>>,
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("{problem}\n{USAGE}\ntargets: {}", names.join(", "));
            return ExitCode::from(64);
        }
    };
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|target| {
            options
                .target
                .as_deref()
                .is_none_or(|name| name == target.name)
        })
        .collect();
    if chosen.is_empty() {
        eprintln!("there is no such target");
        return ExitCode::from(64);
    }
    let watchdog = Watchdog::start();
    let share = Duration::from_secs(options.seconds) / u32::try_from(chosen.len()).unwrap_or(1);
    for target in chosen {
        let run = Run {
            target,
            watchdog: &watchdog,
        };
        let ran = match &options.input {
            Some(input) => run.once(input).map(|()| 1),
            None => run.all(share, options.seed),
        };
        match ran {
            Ok(count) => println!("{}: {count} inputs", target.name),
            Err(input) => {
                eprintln!("{}", reproduce(target.name, &input));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seconds: 10,
            seed: 1,
            target: None,
            input: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
            match arg.as_str() {
                "--seconds" => options.seconds = number(value()?)?,
                "--seed" => options.seed = number(value()?)?,
                "--target" => options.target = Some(value()?),
                "--input" => options.input = Some(from_hex(&value()?).ok_or("--input takes hex")?),
                _ => return Err(format!("{arg:?} is no option")),
            }
        }
        if options.input.is_some() && options.target.is_none() {
            return Err("--input needs --target".into());
        }
        Ok(options)
    }
}

/// A run of one target.
struct Run<'a> {
    target: &'a Target,
    watchdog: &'a Watchdog,
}

impl Run<'_> {
    /// Runs the corpus unchanged, and then mutations of it until the time is up. `Err` has the failing input.
    fn all(&self, time: Duration, seed: u64) -> Result<u64, Vec<u8>> {
        // A binary that was moved away from its sources uses the seeds instead of the corpus.
        let seeds = corpus(self.target).unwrap_or_else(|_| (self.target.seeds)());
        for seed in &seeds {
            self.once(seed)?;
        }
        let mut mutator = Mutator::new(SmallRng::seed_from_u64(seed), &seeds, self.target.words);
        let (start, mut count) = (Instant::now(), seeds.len() as u64);
        while start.elapsed() < time {
            self.once(&mutator.next_input())?;
            count += 1;
        }
        Ok(count)
    }

    fn once(&self, input: &[u8]) -> Result<(), Vec<u8>> {
        self.watchdog.begin(self.target.name, input);
        let result = catch_unwind(AssertUnwindSafe(|| (self.target.run)(input)));
        self.watchdog.end();
        result.map_err(|_| input.to_vec())
    }
}

/// Ends the process when one input takes too long, as an endless loop cannot be interrupted from inside.
struct Watchdog(Arc<Mutex<Option<Current>>>);

/// The current input.
struct Current {
    since: Instant,
    target: &'static str,
    input: Vec<u8>,
}

impl Watchdog {
    fn start() -> Self {
        let current = Arc::new(Mutex::new(None::<Current>));
        let watched = current.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(PATIENCE / 10);
                if let Some(Current {
                    since,
                    target,
                    input,
                }) = &*watched.lock()
                    && since.elapsed() > PATIENCE
                {
                    eprintln!("{target} takes longer than {PATIENCE:?}");
                    eprintln!("{}", reproduce(target, input));
                    std::process::exit(1);
                }
            }
        });
        Self(current)
    }

    fn begin(&self, target: &'static str, input: &[u8]) {
        *self.0.lock() = Some(Current {
            since: Instant::now(),
            target,
            input: input.to_vec(),
        });
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

fn reproduce(target: &str, input: &[u8]) -> String {
    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = if hex.is_empty() { "''" } else { &hex };
    format!("failed; again with: cargo run -p linkerd-fuzz -- --target {target} --input {hex}")
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .chars()
        .map(|c| c.to_digit(16))
        .collect::<Option<Vec<_>>>()?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    pairs.collect()
}

/// The limit of an input: no target takes a second, even without optimisation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const USAGE: &str = "usage: linkerd-fuzz [--seconds N] [--seed N] [--target NAME [--input HEX]]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_can_be_given_again() {
        assert_eq!(from_hex("00ff7a"), Some(vec![0, 255, b'z']));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("0g"), None);
    }
}
