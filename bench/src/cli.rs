//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Compares proxies side by side, and counts the cost of a request.
#[derive(Debug, Parser)]
#[command(about)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures proxies side by side, in interleaved rounds. Needs root.
    Compare(Compare),
    /// Counts costs that do not depend on the machine, and fails above the budget. Needs root.
    Counts(Counts),
}

/// The options of `compare`.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// One short round of a few workloads: shows within a minute that the harness works. Its figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// The proxies to measure; all that are installed if not given.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The workloads to measure; all if not given.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Another build of the proxy to measure; can be given several times.
    #[arg(long, value_name = "NAME=PATH")]
    pub build: Vec<String>,
    /// Number of rounds.
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Duration of the load, in seconds.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// Writes all measurements.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws the CPU time of requests.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The options of `counts`.
#[derive(Clone, Debug, Args)]
pub struct Counts {
    /// The budget.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/budget.toml"))]
    pub budget: PathBuf,
    /// Writes the figures as a budget.
    #[arg(long)]
    pub update: bool,
    /// Keeps callgrind's profiles, for `callgrind_annotate`.
    #[arg(long, value_name = "DIRECTORY")]
    pub profiles: Option<PathBuf>,
    /// Writes the functions that ran, as the linker's order.
    #[arg(long, value_name = "FILE")]
    pub order: Option<PathBuf>,
}

impl Compare {
    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    /// Duration of the load in seconds.
    pub fn seconds(&self) -> u64 {
        let default = if self.quick { 1 } else { 3 };
        self.seconds.unwrap_or(default).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn names_are_separated_by_commas() {
        let cli = Cli::try_parse_from(["bench", "compare", "--only", "ours,direct", "--quick"]);
        let Ok(Command::Compare(compare)) = cli.map(|cli| cli.command) else {
            panic!("not understood");
        };
        assert_eq!(compare.only, ["ours", "direct"]);
        assert_eq!((compare.rounds(), compare.seconds()), (1, 1));
    }
}
