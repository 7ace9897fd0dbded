//! The line in place of lost lines, in the form of the log.

use crate::{config::AccessLogFormat, logging::LineSource};
use std::io::Write;

/// The lines of an access log of this form.
pub fn source(format: AccessLogFormat) -> LineSource {
    LineSource {
        what: "the access log",
        thread: "access-log",
        on_loss: match format {
            AccessLogFormat::Full | AccessLogFormat::Json => push_json,
            AccessLogFormat::Text | AccessLogFormat::Apache => push_text,
        },
    }
}

fn push_json(lost: u64, batch: &mut Vec<u8>) {
    // A write to a vector does not fail.
    let _ = writeln!(batch, "{{\"dropped_lines\":{lost}}}");
}

fn push_text(lost: u64, batch: &mut Vec<u8>) {
    let _ = writeln!(
        batch,
        "# {lost} lines were dropped: their reader is too slow"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_line_of_the_same_form() {
        for (format, expected) in [
            (AccessLogFormat::Full, "{\"dropped_lines\":7}\n"),
            (
                AccessLogFormat::Apache,
                "# 7 lines were dropped: their reader is too slow\n",
            ),
        ] {
            let mut batch = Vec::new();
            (source(format).on_loss)(7, &mut batch);
            assert_eq!(batch, expected.as_bytes());
        }
    }
}
