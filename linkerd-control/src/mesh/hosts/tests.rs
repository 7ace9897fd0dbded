use super::*;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Scripted answers, the last of which repeats, and the times of the queries.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<Result<HostAddresses, String>>>,
    asked: Mutex<Vec<Instant>>,
}

impl Resolve for Scripted {
    fn addresses(&self, _: &str) -> BoxFuture<'static, Result<HostAddresses, String>> {
        self.asked.lock().push(Instant::now());
        let mut answers = self.answers.lock();
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().expect("an answer"),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn answer(ips: &[&str], ttl: Option<u64>) -> Result<HostAddresses, String> {
    let ips = ips.iter().map(|ip| ip.parse().expect("an address"));
    let ttl = ttl.map(Duration::from_secs);
    Ok(HostAddresses::new(ips, ttl))
}

fn scripted(
    answers: impl IntoIterator<Item = Result<HostAddresses, String>>,
) -> (Arc<Scripted>, Hosts) {
    let resolver = Arc::new(Scripted {
        answers: Mutex::new(answers.into_iter().collect()),
        asked: Mutex::default(),
    });
    (resolver.clone(), Hosts::new(resolver))
}

fn ips(hosts: &mut Hosts) -> Vec<String> {
    let known = hosts.known();
    known["db"].iter().map(IpAddr::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_again_when_its_time_to_live_is_over() {
    let (resolver, mut hosts) = scripted([
        answer(&["10.0.0.2", "10.0.0.1", "fd00::1"], Some(60)),
        answer(&["10.0.0.3"], Some(0)),
        answer(&["fd00::1"], None),
    ]);
    hosts.follow(["db".to_owned()].into()).await;
    assert_eq!(ips(&mut hosts), ["10.0.0.1", "10.0.0.2"]);
    for expected in ["10.0.0.3", "fd00::1"] {
        hosts.changed().await;
        assert_eq!(ips(&mut hosts), [expected]);
    }
    let asked = resolver.asked.lock();
    assert_eq!((asked[1] - asked[0]).as_secs(), 60);
    assert_eq!((asked[2] - asked[1]).as_secs(), 5, "at least");
}

#[tokio::test(start_paused = true)]
async fn the_last_addresses_stay_while_a_name_cannot_be_resolved() {
    let failed = || Err("no such host".to_owned());
    let (resolver, mut hosts) = scripted([
        answer(&["10.0.0.1"], Some(5)),
        failed(),
        Ok(HostAddresses {
            v4: None,
            v6: Some(Vec::new()),
            ttl: None,
        }),
        failed(),
        answer(&["10.0.0.2"], Some(5)),
    ]);
    hosts.follow(["db".to_owned()].into()).await;
    assert_eq!(ips(&mut hosts), ["10.0.0.1"]);
    // There was no change before this one.
    hosts.changed().await;
    assert_eq!(ips(&mut hosts), ["10.0.0.2"]);
    let asked = resolver.asked.lock();
    let pauses = asked.windows(2).map(|two| (two[1] - two[0]).as_millis());
    assert_eq!(pauses.collect::<Vec<_>>(), [5_000, 250, 10_000, 250]);
}

#[tokio::test(start_paused = true)]
async fn a_name_without_addresses_has_none_at_once_and_soon_again() {
    let (resolver, mut hosts) = scripted([
        answer(&["10.0.0.1"], Some(5)),
        answer(&[], Some(300)),
        answer(&[], Some(300)),
        answer(&["10.0.0.2"], Some(5)),
    ]);
    hosts.follow(["db".to_owned()].into()).await;
    assert_eq!(ips(&mut hosts), ["10.0.0.1"]);
    hosts.changed().await;
    assert_eq!(ips(&mut hosts), [""; 0]);
    hosts.changed().await;
    assert_eq!(ips(&mut hosts), ["10.0.0.2"]);
    let asked = resolver.asked.lock();
    let pauses = asked.windows(2).map(|two| (two[1] - two[0]).as_millis());
    assert_eq!(pauses.collect::<Vec<_>>(), [5_000, 250, 500]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_never_resolved_holds_nothing_up() {
    let (_, mut hosts) = scripted([Err("no such host".to_owned())]);
    let start = Instant::now();
    hosts.follow(["db".to_owned()].into()).await;
    assert!(start.elapsed() < FIRST_ANSWERS);
    assert!(ips(&mut hosts).is_empty());
    hosts.follow(BTreeSet::new()).await;
    assert!(hosts.known().is_empty());
}
