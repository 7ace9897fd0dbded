//! The results of an attempt that a policy retries. Pure functions.

use http::{HeaderMap, StatusCode};
use linkerd_profiles::RetryConditions;
use linkerd_proxy_core::{
    Error, Reason,
    http::{ClassMatch, ResponseClasses, is_failure, is_grpc},
};
use std::rc::Rc;

/// The results that a route retries.
#[derive(Clone, Debug, PartialEq)]
pub enum RetriedResults {
    /// The results that a policy names.
    Policy(RetryConditions),
    /// Failures by the classes of a profile's route; answers only.
    Profile(Option<Rc<ResponseClasses>>),
}

/// The result of an attempt, as far as retries are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// It was answered, by the endpoint or by the proxy for it.
    Answer {
        /// The status.
        status: StatusCode,
        /// The gRPC code.
        code: Option<u8>,
    },
    /// The request was provably not processed, or the attempt's own limit passed.
    Retryable,
    /// It failed in a way that another attempt would not mend.
    Final,
    /// The request's timeout passed.
    Expired,
}

impl AttemptResult {
    /// Classifies an error.
    ///
    /// | error | with the incumbent |
    /// |---|---|
    /// | a connection that cannot be made or is lost | an answer for the endpoint, retried by its status or code |
    /// | fail-fast, a refused stream, the attempt's timeout | retried |
    /// | the request's timeout | expired |
    /// | all others | final |
    pub fn of_error(error: &Error) -> Self {
        match error.reason() {
            Reason::Failfast(_) | Reason::StreamRefused | Reason::ResponseHeadersTimeout => {
                Self::Retryable
            }
            Reason::RequestTimeout => Self::Expired,
            _ if error.reset_code() == Some(h2::Reason::REFUSED_STREAM) => Self::Retryable,
            _ if error.reset_code().is_some() => Self::Final,
            Reason::ConnectRefused
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::ConnectionLost
            | Reason::UpgradedReset => Self::Answer {
                status: error.status(),
                code: u8::try_from(error.grpc_code()).ok(),
            },
            _ => Self::Final,
        }
    }

    /// Whether it is a failure, retried or not.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Retryable | Self::Final | Self::Expired => true,
            Self::Answer { status, code } => is_failure(status, code),
        }
    }
}

impl RetriedResults {
    /// Whether this result is retried.
    pub fn contain(&self, result: AttemptResult) -> bool {
        match (self, result) {
            (_, AttemptResult::Final | AttemptResult::Expired) => false,
            (Self::Policy(_), AttemptResult::Retryable) => true,
            (Self::Profile(_), AttemptResult::Retryable) => false,
            (Self::Policy(conditions), AttemptResult::Answer { status, code }) => {
                let status = status.as_u16();
                let by_status = conditions.statuses.iter().any(|of| of.contains(&status));
                by_status || code.is_some_and(|code| conditions.grpc_codes.contains(&code))
            }
            (Self::Profile(classes), AttemptResult::Answer { status, code }) => {
                let class = classes.as_ref().map(|classes| classes.find(status));
                match class.unwrap_or(ClassMatch::None) {
                    ClassMatch::Success => false,
                    ClassMatch::Failure => true,
                    ClassMatch::None => is_failure(status, code),
                }
            }
        }
    }

    /// Whether the gRPC code of the response matters to a request with these headers.
    pub fn depend_on_code(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Policy(conditions) => !conditions.grpc_codes.is_empty(),
            Self::Profile(_) => is_grpc(headers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::Unavailable;

    fn conditions() -> RetriedResults {
        RetriedResults::Policy(RetryConditions {
            statuses: vec![500..=502, 504..=504],
            grpc_codes: vec![8, 14],
        })
    }

    #[test]
    fn answers_are_retried_by_status_and_by_code() {
        for (status, code, expected) in [
            (500, None, true),
            (502, None, true),
            (503, None, false),
            (504, None, true),
            (200, None, false),
            (200, Some(0), false),
            (200, Some(14), true),
            (200, Some(13), false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let result = AttemptResult::Answer { status, code };
            assert_eq!(conditions().contain(result), expected, "{result:?}");
        }
    }

    #[test]
    fn errors_are_retried_as_the_incumbent_does() {
        let reset = |code| Error::new(Reason::StreamReset).reset(code);
        for (error, expected) in [
            (Reason::Failfast(Unavailable::Unreachable).into(), true),
            (Reason::Unavailable(Unavailable::Unreachable).into(), false),
            (Reason::ResponseHeadersTimeout.into(), true),
            (Reason::StreamRefused.into(), true),
            (Reason::ConnectRefused.into(), true),
            (Reason::ConnectTimeout.into(), true),
            (Reason::RequestTimeout.into(), false),
            (Reason::ResponseTimeout.into(), false),
            (Reason::InjectedFailure.into(), false),
            (Reason::Redirected.into(), false),
            (Reason::BrokenBody.into(), false),
            (reset(h2::Reason::REFUSED_STREAM), true),
            (reset(h2::Reason::CANCEL), false),
        ] {
            let error: Error = error;
            let result = AttemptResult::of_error(&error);
            assert_eq!(conditions().contain(result), expected, "{error}");
            assert!(result.is_failure());
        }
    }

    #[test]
    fn a_profile_retries_answers_that_its_classes_call_failures() {
        use linkerd_proxy_core::http::{ResponseClass, ResponseMatch};
        let class = |status, is_failure| ResponseClass {
            condition: ResponseMatch::Status(status..=status),
            is_failure,
        };
        let classes = ResponseClasses::new(vec![class(404, true), class(500, false)]);
        let by_class = RetriedResults::Profile(Some(Rc::new(classes)));
        let by_default = RetriedResults::Profile(None);
        for (status, code, classified, default) in [
            (200, None, false, false),
            (404, None, true, false),
            (500, None, false, true),
            (503, None, true, true),
            (200, Some(14), true, true),
            (200, Some(5), false, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let result = AttemptResult::Answer { status, code };
            assert_eq!(by_class.contain(result), classified, "{result:?}");
            assert_eq!(by_default.contain(result), default, "{result:?}");
        }
        for result in [AttemptResult::Retryable, AttemptResult::Final] {
            assert!(!by_default.contain(result), "no answer");
        }
    }
}
