//! The switch: a small server that stops and starts the backends, as a thread cannot be killed like a process.

use super::backend::{self, Backend, Body, whole};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use std::{cell::RefCell, fmt::Write, io, net::TcpListener, rc::Rc};

/// Log of switched backends.
pub(super) type Switched = Rc<RefCell<Vec<String>>>;

/// Serves until it is dropped.
pub(super) async fn serve(
    listener: TcpListener,
    backends: Rc<[Backend]>,
    switched: Switched,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let answer = move |request: Request<Incoming>| {
        let (status, text) = match crate::admin::refuse_foreign_page(&request) {
            Some(problem) => (StatusCode::FORBIDDEN, problem),
            None => switch(&backends, &switched, request.uri().path()),
        };
        let mut response: Response<Body> = Response::new(whole(text));
        *response.status_mut() = status;
        std::future::ready(response)
    };
    backend::accept(listener, answer).await;
    Ok(())
}

/// `/stop/7001` and `/start/7001`, also by a backend's name. Any other path returns the state of all.
fn switch(backends: &[Backend], switched: &Switched, path: &str) -> (StatusCode, String) {
    let mut words = path.trim_matches('/').splitn(2, '/');
    let (verb, which) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    if verb.is_empty() {
        return (StatusCode::OK, list(backends));
    }
    let backend = backends
        .iter()
        .find(|backend| backend.name == which || backend.addr.port().to_string() == which);
    let outcome = match (backend, verb) {
        (Some(backend), "stop") => {
            backend.stop();
            Ok(())
        }
        (Some(backend), "start") => backend.resume(),
        _ => return (StatusCode::NOT_FOUND, list(backends)),
    };
    match (outcome, backend) {
        (Ok(()), Some(backend)) => {
            let text = describe(backend);
            // A client that switches in a loop is not listed for ever.
            let mut switched = switched.borrow_mut();
            if switched.len() < MAX_SWITCHED {
                switched.push(text.clone());
            }
            (StatusCode::OK, format!("{text}\n"))
        }
        (Err(error), _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        (Ok(()), None) => (StatusCode::NOT_FOUND, list(backends)),
    }
}

fn list(backends: &[Backend]) -> String {
    let mut text = String::new();
    for backend in backends {
        let verb = if backend.is_running() {
            "stop"
        } else {
            "start"
        };
        let port = backend.addr.port();
        writeln!(text, "{}; /{verb}/{port} to {verb} it", describe(backend))
            .expect("writing to a string does not fail");
    }
    text
}

fn describe(backend: &Backend) -> String {
    let state = if backend.is_running() {
        "running"
    } else {
        "stopped"
    };
    format!("{} on {} is {state}", backend.name, backend.addr)
}

const MAX_SWITCHED: usize = 16;
