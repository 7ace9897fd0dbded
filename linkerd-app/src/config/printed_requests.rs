//! The switches `--access-log` and `--trace` of commands for people.

use super::{AccessLogFormat, Env, variables};

/// Outputs of requests to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintedRequests {
    /// Prints a line for each request.
    pub access_log: bool,
    /// Prints the traces of all requests.
    pub trace: bool,
}

impl PrintedRequests {
    /// Whether anything is printed.
    pub fn is_any(self) -> bool {
        self.access_log || self.trace
    }

    /// Sets the variables of the outputs. Values that the environment has take precedence.
    pub fn set(self, env: &mut Env) {
        let values = [
            (
                self.access_log,
                variables::ACCESS_LOG_FORMAT.name(),
                AccessLogFormat::Text.name(),
            ),
            (self.trace, variables::TRACE_OUTPUT.name(), "stderr"),
            (self.trace, variables::TRACE_SAMPLE.name(), "1"),
        ];
        for (is_asked, variable, value) in values {
            if is_asked && !env.is_set(variable) {
                env.set(variable, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_takes_precedence() {
        let printed = PrintedRequests {
            access_log: true,
            trace: true,
        };
        let mut env = Env::from_iter([("LINKERD_PROXY_TRACE_SAMPLE", "0.5")]);
        printed.set(&mut env);
        for (name, value) in [
            ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "text"),
            ("LINKERD_PROXY_TRACE_OUTPUT", "stderr"),
            ("LINKERD_PROXY_TRACE_SAMPLE", "0.5"),
        ] {
            let set = env.iter().find(|(variable, _)| variable == name);
            assert_eq!(
                set.map(|(_, value)| value.into_owned()).as_deref(),
                Some(value)
            );
        }
        let mut env = Env::default();
        PrintedRequests::default().set(&mut env);
        assert_eq!(env.iter().count(), 0);
    }
}
