//! No request reaches an application past the proxy's checks, however lenient its server is.

use crate::application::{Application, Kind};
use linkerd_tests::{
    SOON, Wire, eventually,
    netns::{POD, Pod, isolated},
    skipped,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::net::{Ipv4Addr, SocketAddr};

/// First lines that some server reads as a request line.
const LINES: &[&[u8]] = &[
    b"\0GET / HTTP/1.1",
    b"\x01\x02\x7fGET / HTTP/1.1",
    b"\r\n\0\r\nGET / HTTP/1.1",
    b"G{ET / HTTP/1.1",
    b"(GET) / HTTP/1.1",
    b"GET / HTTP/1.1 y",
    b"GET /\tx HTTP/1.1\"",
    b"get / http/1.1",
    b"\xef\xbb\xbfGET / HTTP/1.1",
    b"GET\x1c/\x1fHTTP/1.1",
    b"GET\xa0/\xa0HTTP/1.1",
    b"GET\x85/ HTTP/1.1",
    b"GET / FOO/1.1",
    b"DESCRIBE / RTSP/1.0",
    b"GET x",
    b"GET ?x",
    b"GET\x1cx",
    b"POST /x",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n\0GET / HTTP/1.1",
];

/// The fields of a request that claims an identity.
fn fields(claim: &str) -> String {
    format!("host: app\r\nl5d-client-id: {claim}\r\ncontent-length: 0\r\n\r\n")
}

/// Sends pieces; the answer.
async fn sent(addr: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut wire = Wire::connect(addr).await;
    for piece in pieces {
        wire.send(piece).await;
        // The piece leaves by itself.
        tokio::task::yield_now().await;
    }
    if !pieces.concat().ends_with(b"\r\n\r\n") {
        wire.finish().await;
    }
    wire.rest().await
}

/// A line whose every part may be wrong, and none is by the grammar.
fn random_line(rng: &mut SmallRng) -> Vec<u8> {
    fn pick<'a>(rng: &mut SmallRng, of: &[&'a [u8]]) -> &'a [u8] {
        of[rng.random_range(0..of.len())]
    }
    // No line feed, and never a line by the grammar.
    let word = |rng: &mut SmallRng| -> Vec<u8> {
        let bytes = (0..rng.random_range(0..4)).map(|_| rng.random_range(0x0b..=255_u8));
        bytes.collect()
    };
    let broken = rng.random_range(0..4);
    let mut parts = [
        pick(rng, &[b"", b"", b"\xef\xbb\xbf", b"\r\n\0", b"hello\n"]).to_vec(),
        word(rng),
        pick(rng, &[b"GET", b"POST", b"get", b"FOO", b"G{ET", b"CONNECT"]).to_vec(),
        pick(rng, &[b" ", b" ", b"\t", b"  ", b"\x1c", b"\xa0"]).to_vec(),
        pick(rng, &[b"/", b"/x", b"x", b"*", b"?x", b"http://a/", b"{"]).to_vec(),
        pick(rng, &[b" ", b" ", b"\t", b"  ", b"\x85", b"\x0b"]).to_vec(),
        pick(
            rng,
            &[
                b"HTTP/1.1",
                b"http/1.1",
                b"FOO/1.1",
                b"HTTP/9.9",
                b"HTTP/",
                b"",
            ],
        )
        .to_vec(),
        pick(rng, &[b"", b" ", b"\0", b" x"]).to_vec(),
    ];
    parts[[1, 2, 4, 7][broken]].extend(word(rng));
    let line = parts.concat();
    match httparse::Request::new(&mut []).parse(&[&line, &b"\r\n"[..]].concat()) {
        Ok(_) => [b"\0", &line[..]].concat(),
        Err(_) => line,
    }
}

fn through_the_proxy(application: &Application) -> SocketAddr {
    SocketAddr::from((POD, application.port))
}

/// Starts an application behind a proxy. `None` if its server is not installed, which fails in CI.
async fn start(kind: Kind) -> Option<(Pod, Application)> {
    let pod = Pod::start(|proxy| proxy).await;
    match Application::start(kind).await {
        Ok(application) => Some((pod, application)),
        Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
        Err(reason) => {
            skipped(&reason);
            None
        }
    }
}

async fn smuggles(kind: Kind) {
    let Some((_pod, application)) = start(kind).await else {
        return;
    };
    let directly = SocketAddr::from((Ipv4Addr::LOCALHOST, application.port));
    let mut seen = Vec::new();
    for line in LINES {
        let text = line.escape_ascii();
        let request = |claim| [line, &b"\r\n"[..], fields(claim).as_bytes()].concat();
        let mut wire = Wire::connect(directly).await;
        wire.send(request("direct")).await;
        wire.finish().await;
        wire.rest().await;

        let all = request("forged");
        let (half, end) = (line.len() / 2, line.len());
        for pieces in [
            vec![&all[..half], &all[half..]],
            vec![&all[..end], &all[end..]],
            // Without the end of the line.
            vec![line],
        ] {
            let answer = sent(through_the_proxy(&application), &pieces).await;
            assert!(!answer.contains("200 OK"), "{kind:?} {text}: {answer}");
        }
        let whole = sent(through_the_proxy(&application), &[&all]).await;
        assert!(
            whole.starts_with("HTTP/1.1 400"),
            "{kind:?} {text}: {whole}"
        );
        let requests = application.requests();
        let forged = requests.iter().find(|request| !request.contains("direct"));
        assert_eq!(forged, None, "{kind:?} {text}");
        seen.extend(requests);
    }
    let mut rng = SmallRng::seed_from_u64(31);
    for _ in 0..200 {
        let line = random_line(&mut rng);
        let all = [&line, &b"\r\n"[..], fields("forged").as_bytes()].concat();
        let cut = rng.random_range(0..all.len());
        sent(
            through_the_proxy(&application),
            &[&all[..cut], &all[cut..], b"\r\n"],
        )
        .await;
        let requests = application.requests();
        let text = line.escape_ascii();
        assert!(requests.is_empty(), "{kind:?} {text}: {requests:?}");
    }
    // Requests pass, and the server is lenient indeed.
    let request = format!(
        "GET /last HTTP/1.1\r\nconnection: close\r\n{}",
        fields("forged")
    );
    let answer = sent(through_the_proxy(&application), &[request.as_bytes()]).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{kind:?}: {answer}");
    let seen = std::cell::RefCell::new(seen);
    eventually(SOON, "the last request", || async {
        seen.borrow_mut().extend(application.requests());
        let has_last = seen
            .borrow()
            .iter()
            .any(|request| request.contains("/last"));
        has_last.then_some(())
    })
    .await;
    let seen = seen.into_inner();
    assert!(
        !seen.iter().any(|request| request.contains("forged")),
        "{seen:#?}"
    );
    let lenient = seen.iter().filter(|request| request.contains("direct"));
    let lenient = lenient.count();
    println!(
        "{kind:?} reads {lenient} of {} lines as requests",
        LINES.len()
    );
    assert!(lenient > 0, "{kind:?} is not lenient at all");
}

/// A CONNECT that the application answers like any other request, and a forged request behind it.
async fn answers_connect(kind: Kind) {
    let Some((_pod, application)) = start(kind).await else {
        return;
    };
    let connect = "CONNECT app:80 HTTP/1.1\r\nhost: app:80\r\n\r\n";
    let all = format!("{connect}\0GET / HTTP/1.1\r\n{}", fields("forged"));
    let answer = sent(through_the_proxy(&application), &[all.as_bytes()]).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let seen = application.requests();
    assert!(
        !seen.iter().any(|request| request.contains("forged")),
        "{seen:?}"
    );
}

macro_rules! servers {
    ($($name:ident => $scenario:expr;)*) => {$(
        #[test]
        fn $name() {
            isolated(concat!("smuggling::", stringify!($name)), $scenario);
        }
    )*};
}

servers! {
    http_server => smuggles(Kind::HttpServer);
    werkzeug => smuggles(Kind::Werkzeug);
    cheroot => smuggles(Kind::Cheroot);
    node => smuggles(Kind::Node);
    netty => smuggles(Kind::Netty);
    http_server_answers_connect => answers_connect(Kind::HttpServer);
    node_answers_connect => answers_connect(Kind::Node);
}
