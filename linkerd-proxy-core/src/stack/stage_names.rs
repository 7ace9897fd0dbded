//! Names of stages in errors.

use super::ObserveCall;
use crate::Error;

/// Names of a stage, added to the errors that pass it, the outermost last. Formats nothing without an error.
#[derive(Clone, Debug)]
pub struct StageNames {
    /// Whether the endpoint is named first, if the error knows it.
    endpoint: bool,
    names: Box<[String]>,
}

impl StageNames {
    /// Adds `names`, such as `route default.http`.
    pub fn new(names: impl Into<Box<[String]>>) -> Self {
        let names = names.into();
        Self {
            endpoint: false,
            names,
        }
    }

    /// Adds the endpoint involved in the error, and then `names`.
    pub fn of_endpoint(names: impl Into<Box<[String]>>) -> Self {
        let names = names.into();
        Self {
            endpoint: true,
            names,
        }
    }
}

impl<Req, Rsp> ObserveCall<Req, Rsp> for StageNames {
    type Call = ();

    fn begin(&self, _: &mut Req) {}

    fn answered(&self, (): &(), _: &mut Rsp) {}

    fn failed(&self, (): &(), error: &mut Error) {
        if self.endpoint
            && let Some(peer) = error.peer_addr()
        {
            error.add_context(format!("endpoint {peer}"));
        }
        for name in &self.names {
            error.add_context(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn failed(names: &StageNames, mut error: Error) -> String {
        ObserveCall::<(), ()>::failed(names, &(), &mut error);
        error.to_string()
    }

    #[test]
    fn an_error_names_the_stages_from_the_outside_in() {
        let names = StageNames::new(["route r".to_owned(), "logical service s".to_owned()]);
        let error = failed(&names, Error::new(Reason::ConnectRefused));
        assert_eq!(error, "logical service s: route r: connection refused");
    }

    #[test]
    fn an_endpoint_is_named_if_the_error_knows_it() {
        let names = StageNames::of_endpoint(["backend b".to_owned()]);
        let mut error = Error::new(Reason::ConnectRefused);
        assert_eq!(failed(&names, error), "backend b: connection refused");
        error = Error::new(Reason::ConnectRefused);
        error.or_peer(([127, 0, 0, 1], 80).into());
        let expected = "backend b: endpoint 127.0.0.1:80: connection refused";
        assert_eq!(failed(&names, error), expected);
    }
}
