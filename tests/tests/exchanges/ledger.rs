//! The ledger: planned requests, and their attempts at each endpoint.

use crate::plan::{Case, Ending, Exchange};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// An endpoint's view of a request, and of its end there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub endpoint: usize,
    /// Bytes of the received body, if it was complete.
    pub body: Option<u64>,
    pub end: AttemptEnd,
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The attempt is still open.
    Open,
    /// Refused by the endpoint before processing.
    Refused,
    /// The endpoint wrote its whole response.
    Answered,
    /// Aborted by the endpoint, as planned or because it stopped.
    Broken,
    /// Aborted by the proxy: the endpoint could not read or write on.
    Left,
}

/// State shared by all clients and endpoints of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    exchanges: HashMap<u64, (Arc<Exchange>, Vec<Attempt>)>,
    judged: VecDeque<u64>,
    violation: Option<String>,
    tally: Tally,
}

/// Evidence beyond single exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Idle connections that an endpoint ended.
    pub idle_ends: u64,
    /// Stops of endpoints.
    pub outages: u64,
}

impl Ledger {
    /// Registers the exchanges of a case.
    pub fn expect(&self, case: &Case) {
        let mut entries = self.entries.lock();
        for exchange in &case.exchanges {
            let entry = (Arc::new(exchange.clone()), Vec::new());
            entries.exchanges.insert(exchange.id, entry);
        }
    }

    /// Drops old cases, some time after they were judged, to recognise late requests.
    pub fn judged(&self, case: &Case) {
        let mut entries = self.entries.lock();
        entries
            .judged
            .extend(case.exchanges.iter().map(|exchange| exchange.id));
        while entries.judged.len() > REMEMBERED {
            if let Some(id) = entries.judged.pop_front() {
                entries.exchanges.remove(&id);
            }
        }
    }

    /// A request reached an endpoint: returns its plan and the number of the attempt. An error is a violation.
    pub fn begin(&self, id: u64, endpoint: usize) -> Result<(Arc<Exchange>, usize), String> {
        let mut entries = self.entries.lock();
        let Some((exchange, attempts)) = entries.exchanges.get_mut(&id) else {
            return Err(format!("nobody sent request {id}"));
        };
        let number = attempts.len();
        attempts.push(Attempt {
            endpoint,
            body: None,
            end: AttemptEnd::Open,
        });
        check_replay(exchange, attempts)?;
        Ok((exchange.clone(), number))
    }

    /// Changes an attempt.
    pub fn update(&self, id: u64, attempt: usize, change: impl FnOnce(&mut Attempt)) {
        let mut entries = self.entries.lock();
        let attempts = entries.exchanges.get_mut(&id).map(|(_, attempts)| attempts);
        // A repeated case has dropped its former attempts.
        if let Some(attempt) = attempts.and_then(|attempts| attempts.get_mut(attempt)) {
            change(attempt);
        }
    }

    /// The attempts at a request so far.
    pub fn attempts(&self, id: u64) -> Vec<Attempt> {
        let entries = self.entries.lock();
        let entry = entries.exchanges.get(&id);
        entry.map_or_else(Vec::new, |(_, attempts)| attempts.clone())
    }

    /// Counts evidence beyond single exchanges.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.entries.lock().tally);
    }

    /// Exchanges by kind.
    pub fn tally(&self) -> Tally {
        self.entries.lock().tally
    }

    /// Keeps the first violation.
    pub fn violated(&self, what: String) {
        self.entries.lock().violation.get_or_insert(what);
    }

    /// The first violation.
    pub fn violation(&self) -> Option<String> {
        self.entries.lock().violation.clone()
    }
}

/// Whether the last attempt was allowed after the earlier ones.
pub fn check_replay(exchange: &Exchange, attempts: &[Attempt]) -> Result<(), String> {
    let refusals = attempts
        .iter()
        .filter(|attempt| attempt.end == AttemptEnd::Refused)
        .count();
    let given = attempts.len() - refusals;
    // An attempt refused right before its connection ended may have been lost for the proxy.
    let most = if exchange.ask.is_idempotent() { 2 } else { 1 };
    if given > most || attempts.len() > MOST_REFUSALS + most {
        return Err(format!(
            "replay: {} {} was given to endpoints {given} times, and refused {refusals} times: {attempts:?}",
            exchange.ask.method, exchange.id,
        ));
    }
    Ok(())
}

/// An attempt in progress at an endpoint; dropping it early means that it was aborted.
pub struct Serving {
    ledger: Arc<Ledger>,
    pub exchange: Arc<Exchange>,
    pub number: usize,
}

impl Serving {
    /// See [`Ledger::begin`].
    pub fn begin(ledger: &Arc<Ledger>, id: u64, endpoint: usize) -> Result<Self, String> {
        let (exchange, number) = ledger.begin(id, endpoint)?;
        let serving = Self {
            ledger: ledger.clone(),
            exchange,
            number,
        };
        if serving.answer().end == Ending::Refuse {
            serving.end(AttemptEnd::Refused);
        }
        Ok(serving)
    }

    /// The planned response.
    pub fn answer(&self) -> &crate::plan::Answer {
        self.exchange.answer(self.number)
    }

    /// Records the complete body of the request.
    pub fn came(&self, bytes: u64) {
        let set = |attempt: &mut Attempt| attempt.body = Some(bytes);
        self.ledger.update(self.exchange.id, self.number, set);
    }

    /// Records the end, before the proxy can see it. The first end counts.
    pub fn end(&self, end: AttemptEnd) {
        let id = self.exchange.id;
        self.ledger.update(id, self.number, |attempt| {
            if attempt.end == AttemptEnd::Open {
                attempt.end = end;
            }
        });
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end(AttemptEnd::Broken);
    }
}

/// Exchanges kept after their end.
const REMEMBERED: usize = 50_000;

/// The most attempts at a request that is refused.
const MOST_REFUSALS: usize = 3;
