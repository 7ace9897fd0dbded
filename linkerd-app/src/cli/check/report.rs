//! The report of a check: lines with their results and fixes, as text or JSON.

use crate::{cli::output, config::EXIT_USAGE, cut::cut};
use serde_json::{Value, json};
use std::{fmt, process::ExitCode};

/// The lines of a check, in order.
#[derive(Debug, Default)]
pub(super) struct CheckReport {
    lines: Vec<(&'static str, CheckLine)>,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    name: String,
    status: CheckStatus,
    detail: String,
    fix: Option<String>,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckStatus {
    /// It passes.
    Ok,
    /// The proxy works, but probably not as intended.
    Warn,
    /// It could not be made, or does not apply.
    Skipped,
    /// The configuration is wrong.
    Misconfigured,
    /// Another cause: a file, a port, a controller, the clock.
    Failed,
}

impl CheckReport {
    /// Adds the lines of a section.
    pub(super) fn add(
        &mut self,
        section: &'static str,
        lines: impl IntoIterator<Item = CheckLine>,
    ) {
        let lines = lines.into_iter().map(|line| (section, line));
        self.lines.extend(lines);
    }

    /// 0 if all checks pass, 64 if the configuration is wrong, 1 if something else fails.
    pub(super) fn exit_code(&self) -> u8 {
        match () {
            () if self.count(CheckStatus::Misconfigured) > 0 => EXIT_USAGE,
            () if self.count(CheckStatus::Failed) > 0 => EXIT_FAILED,
            () => 0,
        }
    }

    /// Prints the report to standard output.
    pub(super) fn print(&self, json: bool) -> ExitCode {
        let text = match json {
            true => format!("{:#}\n", self.to_json()),
            false => format!("{self}\n"),
        };
        match output::print(&text) {
            Ok(()) => ExitCode::from(self.exit_code()),
            Err(failed) => failed,
        }
    }

    fn to_json(&self) -> Value {
        let checks = self.lines.iter().map(|(section, line)| {
            json!({
                "section": section,
                "name": printable(&line.name),
                "status": line.status.json_name(),
                "detail": printable(&line.detail),
                "fix": line.fix.as_deref().map(printable),
            })
        });
        json!({
            "exit_code": self.exit_code(),
            "ok": self.count(CheckStatus::Ok),
            "warnings": self.count(CheckStatus::Warn),
            "skipped": self.count(CheckStatus::Skipped),
            "failed": self.failed(),
            "checks": checks.collect::<Vec<_>>(),
        })
    }

    fn failed(&self) -> usize {
        self.count(CheckStatus::Misconfigured) + self.count(CheckStatus::Failed)
    }

    fn count(&self, status: CheckStatus) -> usize {
        let all = self.lines.iter();
        all.filter(|(_, line)| line.status == status).count()
    }

    fn summary(&self) -> String {
        let warnings = match self.count(CheckStatus::Warn) {
            1 => "1 warning".to_owned(),
            warnings => format!("{warnings} warnings"),
        };
        format!(
            "{} ok, {warnings}, {} skipped, {} failed",
            self.count(CheckStatus::Ok),
            self.count(CheckStatus::Skipped),
            self.failed()
        )
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.lines.iter().map(|(_, line)| line.name.chars().count());
        let width = widths.max().unwrap_or(0).min(MAX_NAME_WIDTH);
        let mut before = None;
        for (section, line) in &self.lines {
            if before.replace(section) != Some(section) {
                writeln!(f, "{section}")?;
            }
            let (status, name) = (line.status.text_name(), printable(&line.name));
            writeln!(
                f,
                "  {status:7}  {name:width$}  {}",
                printable(&line.detail)
            )?;
            if let Some(fix) = &line.fix {
                writeln!(f, "           fix: {}", printable(fix))?;
            }
        }
        f.write_str(&self.summary())
    }
}

impl CheckLine {
    /// A check that passes.
    pub(super) fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, detail)
    }

    /// A probable mistake.
    pub(super) fn warn(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Warn, detail)
    }

    /// A check that was not made, and the reason.
    pub(super) fn skipped(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Skipped, why)
    }

    /// An error of the configuration.
    pub(super) fn misconfigured(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Misconfigured, detail)
    }

    /// Another failure.
    pub(super) fn failed(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Failed, detail)
    }

    /// Names the setting or the command that helps.
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }

    fn new(name: impl Into<String>, status: CheckStatus, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status,
            detail: detail.into(),
            fix: None,
        }
    }
}

impl CheckStatus {
    fn text_name(self) -> &'static str {
        match self {
            Self::Misconfigured | Self::Failed => "FAIL",
            status => status.json_name(),
        }
    }

    fn json_name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Skipped => "skipped",
            Self::Misconfigured | Self::Failed => "fail",
        }
    }
}

/// A text on one line, without control characters: some of it is from peers, and a terminal would obey them.
fn printable(text: &str) -> String {
    let line: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(line, MAX_TEXT)
}

/// The longest text, in bytes: an error with its causes is shorter.
const MAX_TEXT: usize = 2048;

/// Longer names move their details to the right.
const MAX_NAME_WIDTH: usize = 40;

/// The exit code of a check that fails for another reason than the configuration.
const EXIT_FAILED: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: impl IntoIterator<Item = CheckLine>) -> CheckReport {
        let mut report = CheckReport::default();
        report.add("files", lines);
        report
    }

    #[test]
    fn lines_are_aligned_below_their_section_and_fixes_follow() {
        let mut report = report([
            CheckLine::ok("token", "/token"),
            CheckLine::failed("trust anchors", "expired").fix("renew them"),
        ]);
        report.add("clock", [CheckLine::skipped("clock", "no certificate")]);
        let text = "files
  ok       token          /token
  FAIL     trust anchors  expired
           fix: renew them
clock
  skipped  clock          no certificate
1 ok, 0 warnings, 1 skipped, 1 failed";
        assert_eq!(report.to_string(), text);
        let json = report.to_json();
        assert_eq!(json["exit_code"], 1);
        assert_eq!(
            json["checks"][1],
            json!({
                "section": "files",
                "name": "trust anchors",
                "status": "fail",
                "detail": "expired",
                "fix": "renew them",
            })
        );
    }

    #[test]
    fn a_wrong_configuration_decides_the_exit_code() {
        let warn = CheckLine::warn("a", "");
        let failed = CheckLine::failed("b", "");
        let wrong = CheckLine::misconfigured("c", "");
        assert_eq!(report([warn.clone()]).exit_code(), 0);
        assert_eq!(report([warn.clone(), failed.clone()]).exit_code(), 1);
        assert_eq!(report([warn, failed, wrong]).exit_code(), 64);
    }

    #[test]
    fn texts_of_peers_stay_on_their_line() {
        let text = report([CheckLine::ok("name", "a\nb\u{1b}[31mc\r")]).to_string();
        assert!(text.contains("a b [31mc\n"), "{text:?}");
    }
}
