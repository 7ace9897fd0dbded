use super::*;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Answers address look-ups from a list, repeating the last answer. SRV queries fail, or find no records if `.1` is set.
struct Script(Mutex<VecDeque<Result<AddressAnswer, DnsError>>>, bool);

impl Resolve for Script {
    fn srv(&self, _: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>> {
        let is_negative = self.1;
        Box::pin(async move {
            Err(DnsError {
                is_negative,
                ..failed()
            })
        })
    }

    fn addresses(&self, _: &str) -> BoxFuture<'static, Result<AddressAnswer, DnsError>> {
        let mut answers = self.0.lock();
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().unwrap(),
        };
        Box::pin(async { answer })
    }
}

fn failed() -> DnsError {
    DnsError {
        is_negative: false,
        negative_ttl: None,
        message: "no records".into(),
    }
}

fn found(last: u8) -> Result<AddressAnswer, DnsError> {
    Ok(AddressAnswer {
        v4: Some(vec![[10, 0, 0, last].into()]),
        v6: Some(Vec::new()),
        ttl: Duration::from_secs(7),
    })
}

fn backoff() -> Backoff {
    Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 0.0).unwrap()
}

fn start(
    addr: &str,
    answers: impl IntoIterator<Item = Result<AddressAnswer, DnsError>>,
) -> (watch::Receiver<Option<Arc<AddressSet>>>, Arc<Resolutions>) {
    let counts = Arc::new(Resolutions::default());
    let addrs = watch(
        addr.parse().unwrap(),
        Arc::new(Script(Mutex::new(answers.into_iter().collect()), false)),
        backoff(),
        counts.clone(),
        &tokio::runtime::Handle::current(),
    );
    (addrs, counts)
}

async fn next(addrs: &mut watch::Receiver<Option<Arc<AddressSet>>>) -> String {
    addrs.changed().await.unwrap();
    let set = addrs.borrow_and_update().clone().unwrap();
    format!("{}: {}", set.generation, set.addrs[0])
}

#[tokio::test(start_paused = true)]
async fn follows_the_name_and_keeps_the_last_answer() {
    let begin = Instant::now();
    let (mut addrs, counts) = start(
        "dst.linkerd.svc.:8086",
        [Err(failed()), found(1), found(1), Err(failed()), found(2)],
    );
    assert_eq!(next(&mut addrs).await, "1: 10.0.0.1:8086");
    assert_eq!(begin.elapsed().as_secs(), 1, "one backoff");
    // Unchanged after 7 s, failed after 14 s, changed one backoff later.
    assert_eq!(next(&mut addrs).await, "2: 10.0.0.2:8086");
    assert_eq!(begin.elapsed().as_secs(), 1 + 7 + 7 + 1);
    assert_eq!(
        counts.series(),
        [
            ("SRV", "ok", 0),
            ("SRV", "not_found", 5),
            ("A/AAAA", "ok", 3),
            ("A/AAAA", "not_found", 2),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_state_has_the_addresses_with_their_age_and_the_last_error() {
    let (mut addrs, names) = start(
        "dst.linkerd.svc.:8086",
        [Err(failed()), found(1), Err(failed())],
    );
    let error = "SRV: no records; A/AAAA: no records";
    let state = |addresses: &[&str], age: Option<u64>, next: u64, error: Option<&str>| {
        serde_json::json!({
            "name": "dst.linkerd.svc.",
            "addresses": addresses,
            "limit": 256,
            "age_ms": age,
            "next_query_in_ms": next,
            "last_error": error,
        })
    };
    sleep(Duration::from_millis(500)).await;
    assert_eq!(names.inspect(), state(&[], None, 500, Some(error)));
    addrs.changed().await.unwrap();
    sleep(Duration::from_secs(2)).await;
    let known = ["10.0.0.1:8086"];
    assert_eq!(names.inspect(), state(&known, Some(2000), 5000, None));
    sleep(Duration::from_millis(5500)).await;
    let stale = state(&known, Some(7500), 500, Some(error));
    assert_eq!(names.inspect(), stale, "the last addresses stay in use");
}

#[tokio::test(start_paused = true)]
async fn a_name_without_addresses_clears_the_last_answer() {
    let none = || {
        Err(DnsError {
            is_negative: true,
            ..failed()
        })
    };
    let script = Script(Mutex::new([none(), found(1), none()].into()), true);
    let names = Arc::new(Resolutions::default());
    let mut addrs = watch(
        "dst.linkerd.svc.:8086".parse().unwrap(),
        Arc::new(script),
        backoff(),
        names.clone(),
        &tokio::runtime::Handle::current(),
    );
    assert_eq!(next(&mut addrs).await, "1: 10.0.0.1:8086");
    addrs.changed().await.unwrap();
    assert!(addrs.borrow().as_ref().unwrap().addrs.is_empty());
    assert_eq!(names.inspect()["addresses"], serde_json::json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_resolved_once_for_a_check() {
    let once = async |answer| {
        let script = Script(Mutex::new([answer].into()), false);
        let addr = "dst.linkerd.svc.:8086".parse().unwrap();
        resolve_once(addr, &script, backoff()).await
    };
    let addr = "10.0.0.1:8086".parse().unwrap();
    assert_eq!(once(found(1)).await, Ok(vec![addr]));
    let error = once(Err(failed())).await.unwrap_err();
    assert_eq!(error, "SRV: no records; A/AAAA: no records");
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_dns_is_there_at_once() {
    for (text, addr) in [
        ("10.0.0.1:8086", "10.0.0.1:8086"),
        ("localhost.:8086", "127.0.0.1:8086"),
        ("LocalHost:8086", "127.0.0.1:8086"),
        ("[::1]:8086", "[::1]:8086"),
    ] {
        let (addrs, names) = start(text, []);
        let set = addrs.borrow().clone().unwrap();
        assert_eq!(set.addrs, [addr.parse().unwrap()], "{text}");
        assert_eq!(names.inspect()["addresses"], serde_json::json!([addr]));
    }
}

#[test]
fn addresses_are_checked() {
    for refused in [
        "",
        "dst",
        "dst:",
        "dst:0",
        "dst:x",
        ":8086",
        "a b:1",
        "dst:65536",
        "::1:1:x",
    ] {
        assert!(refused.parse::<ControlAddr>().is_err(), "{refused:?}");
    }
}
