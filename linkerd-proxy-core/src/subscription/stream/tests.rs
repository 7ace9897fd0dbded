use super::*;
use futures::stream;
use rand::SeedableRng;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

const SECS: fn(u64) -> Duration = Duration::from_secs;

/// One scripted call.
enum Script {
    /// The call fails.
    Fails(Code),
    /// The call never answers.
    Hangs,
    /// The stream yields items, then ends.
    Ends(Vec<u32>),
    /// The stream yields items, then fails.
    Breaks(Vec<u32>, Code),
    /// The stream yields items, then ends after a wait in seconds.
    StaysFor(u64, Vec<u32>),
    /// The stream yields items, each after a wait in seconds, then nothing.
    Stays(Vec<(u64, u32)>),
}

fn status(code: Code) -> Status {
    Status::new(code, "")
}

fn subscription(
    limits: StreamLimits,
    calls: impl IntoIterator<Item = Script>,
) -> Subscription<u32> {
    let calls: VecDeque<_> = calls.into_iter().collect();
    let calls = Arc::new(Mutex::new(calls));
    let settings = StreamSettings {
        limits,
        backoff: Backoff::new(SECS(1), SECS(8), 0.0).unwrap(),
        terminal: |code| code == Code::InvalidArgument,
    };
    let call = move || -> Call<u32> {
        let next = calls.lock().unwrap().pop_front();
        Box::pin(async move {
            match next.unwrap_or(Script::Hangs) {
                Script::Fails(code) => Err(status(code)),
                Script::Hangs => std::future::pending().await,
                Script::Ends(items) => Ok(stream::iter(items).map(Ok).boxed()),
                Script::StaysFor(wait, items) => {
                    let end = stream::once(tokio::time::sleep(SECS(wait)));
                    let end = end.filter_map(async |()| None::<Result<u32, Status>>);
                    Ok(stream::iter(items).map(Ok).chain(end).boxed())
                }
                Script::Breaks(items, code) => {
                    let broken = stream::iter([Err(status(code))]);
                    Ok(stream::iter(items).map(Ok).chain(broken).boxed())
                }
                Script::Stays(items) => {
                    let items = stream::iter(items).then(|(wait, item)| async move {
                        tokio::time::sleep(SECS(wait)).await;
                        Ok(item)
                    });
                    Ok(items.chain(stream::pending()).boxed())
                }
            }
        })
    };
    Subscription::new(call, settings, SmallRng::seed_from_u64(1))
}

/// The next events, each with the second in which it came.
async fn events(subscription: &mut Subscription<u32>, count: usize) -> Vec<(u64, Event<u32>)> {
    let begin = Instant::now();
    let mut events = Vec::new();
    for _ in 0..count {
        let event = subscription.next().await;
        events.push((begin.elapsed().as_secs(), event));
    }
    events
}

fn closed(code: Code) -> Event<u32> {
    Event::Closed(Some(status(code)))
}

#[tokio::test(start_paused = true)]
async fn backs_off_and_starts_over_after_an_item() {
    let mut subscription = subscription(
        StreamLimits::default(),
        [
            Script::Fails(Code::Unavailable),
            Script::Fails(Code::Internal),
            Script::Ends(vec![]),
            Script::Breaks(vec![7], Code::Unavailable),
            Script::Ends(vec![8]),
            Script::Hangs,
        ],
    );
    assert_eq!(
        events(&mut subscription, 10).await,
        [
            (0, closed(Code::Unavailable)),
            (1, closed(Code::Internal)),
            // An opened stream without messages is no progress.
            (1 + 2, Event::Opened),
            (1 + 2, Event::Closed(None)),
            (3 + 4, Event::Opened),
            (3 + 4, Event::Item(7)),
            (3 + 4, closed(Code::Unavailable)),
            (7 + 1, Event::Opened),
            (7 + 1, Event::Item(8)),
            (7 + 1, Event::Closed(None)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminal_status_is_the_end() {
    for call in [
        Script::Fails(Code::InvalidArgument),
        Script::Breaks(vec![], Code::InvalidArgument),
    ] {
        let mut subscription = subscription(StreamLimits::default(), [call]);
        let rejected = loop {
            match subscription.next().await {
                Event::Opened => {}
                event => break event,
            }
        };
        assert_eq!(rejected, Event::Rejected(status(Code::InvalidArgument)));
        assert_eq!(subscription.ready(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_message_has_its_limit() {
    let limits = StreamLimits {
        initial: Some(SECS(3)),
        ..StreamLimits::default()
    };
    let mut subscription = subscription(
        limits,
        [
            Script::Hangs,
            Script::Stays(vec![]),
            Script::Stays(vec![(2, 7), (60, 8)]),
        ],
    );
    let late = || Event::Closed(Some(no_first_message()));
    assert_eq!(
        events(&mut subscription, 6).await,
        [
            (3, late()),
            (3 + 1, Event::Opened),
            (4 + 3, late()),
            (7 + 2, Event::Opened),
            (9 + 2, Event::Item(7)),
            (11 + 60, Event::Item(8)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn idling_and_old_age_are_clean_ends() {
    let limits = StreamLimits {
        initial: None,
        idle: Some(SECS(10)),
        lifetime: Some(SECS(25)),
    };
    let mut subscription = subscription(
        limits,
        [
            Script::Stays(vec![(0, 1), (9, 2)]),
            Script::Stays(vec![(9, 3), (9, 4), (9, 5)]),
        ],
    );
    assert_eq!(
        events(&mut subscription, 8).await,
        [
            (0, Event::Opened),
            (0, Event::Item(1)),
            (9, Event::Item(2)),
            (9 + 10, Event::Closed(None)),
            (19, Event::Opened),
            (19 + 9, Event::Item(3)),
            (19 + 18, Event::Item(4)),
            (19 + 25, Event::Closed(None)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_is_followed_by_the_next_stream_at_once_unless_it_repeats() {
    let after = |wait, item| Script::StaysFor(wait, vec![item]);
    let mut subscription = subscription(
        StreamLimits::default(),
        [after(60, 1), after(0, 2), after(0, 3), Script::Hangs],
    );
    assert_eq!(
        events(&mut subscription, 9).await,
        [
            (0, Event::Opened),
            (0, Event::Item(1)),
            (60, Event::Closed(None)),
            (60, Event::Opened),
            (60, Event::Item(2)),
            (60, Event::Closed(None)),
            (61, Event::Opened),
            (61, Event::Item(3)),
            (61, Event::Closed(None)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_backoff_of_zero_is_no_busy_loop() {
    let mut subscription = subscription(
        StreamLimits::default(),
        (0..100).map(|_| Script::Ends(vec![])),
    );
    let settings = std::sync::Arc::get_mut(&mut subscription.settings).unwrap();
    settings.backoff = Backoff::new(Duration::ZERO, SECS(1), 0.0).unwrap();
    let begin = Instant::now();
    events(&mut subscription, 20).await;
    assert!(begin.elapsed() >= 9 * MIN_WAIT);
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_can_be_drained() {
    let mut subscription = subscription(
        StreamLimits::default(),
        [Script::Stays(vec![(0, 1), (0, 2), (5, 3)])],
    );
    assert_eq!(subscription.next().await, Event::Opened);
    assert_eq!(subscription.next().await, Event::Item(1));
    assert_eq!(subscription.next().await, Event::Item(2));
    assert_eq!(subscription.ready(), None);
    assert_eq!(subscription.next().await, Event::Item(3));
}
