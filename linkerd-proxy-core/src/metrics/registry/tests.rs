use super::*;
use crate::metrics::{BYTES, LATENCY_MS, Labels};

const RETAIN: Duration = Duration::from_secs(600);

fn render(registry: &Registry) -> String {
    registry.render(RETAIN, Instant::now())
}

#[test]
fn handles_of_one_series_are_summed_and_outlive_their_owner() {
    let registry = Registry::new();
    let family = registry.counter(RegistryStyle::Legacy, "request_total", "Requests");
    let labels = Labels::new().with("direction", "outbound");
    let (a, b) = (family.get(labels.clone()), family.get(labels));
    a.incr();
    b.add(2);
    drop(a);
    let expected = "# HELP request_total Requests\n# TYPE request_total counter\n\
                    request_total{direction=\"outbound\"} 3\n# EOF\n";
    assert_eq!(render(&registry), expected);
    assert_eq!(render(&registry), expected, "a scrape changes nothing");
}

#[test]
fn a_series_leaves_when_its_owner_is_long_gone() {
    let registry = Registry::new();
    let family = registry.counter(RegistryStyle::OpenMetrics, "x_total", "X");
    drop(family.get(Labels::new()));
    let now = Instant::now();
    assert!(registry.render(RETAIN, now).contains("x_total 0"));
    assert!(!registry.render(RETAIN, now + RETAIN).contains("x_total 0"));
    assert_eq!(family.len(), 0);
}

/// A family of which two series are known.
fn full<M: Metric + Send + Sync + 'static>(
    registry: &Registry,
    params: M::Params,
) -> (Family<M>, [M; 2]) {
    let family = registry.family::<M>(RegistryStyle::Legacy, "few", "Few", params, 2);
    let known = [0, 1].map(|n| family.get(labels(n)));
    (family, known)
}

fn labels(n: usize) -> Labels {
    Labels::new().with("n", n).with("kind", "number")
}

#[test]
fn beyond_the_limit_counters_count_in_one_series_so_that_the_sum_is_right() {
    let registry = Registry::new();
    let (family, known) = full::<Counter>(&registry, ());
    let refused: Vec<_> = (2..5).map(|n| family.get(labels(n))).collect();
    known.iter().chain(&refused).for_each(Counter::incr);
    std::thread::scope(|scope| {
        scope.spawn(|| family.get(labels(5)).add(10));
    });
    let text = render(&registry);
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        r#"few{n="0",kind="number"} 1"#,
        r#"few{n="1",kind="number"} 1"#,
        r#"few{n="other",kind="other"} 13"#,
        r#"proxy_metrics_series_refused_total{family="few"} 4"#,
    ];
    assert_eq!(lines, expected);
    let [size] = registry.sizes().try_into().unwrap();
    assert_eq!((size.series, size.limit, size.refused), (2, 2, 4));
    // A known series has its handle still.
    family.get(labels(0)).add(4);
    assert!(render(&registry).contains(r#"few{n="0",kind="number"} 5"#));
}

#[test]
fn series_that_leave_make_room_and_then_the_one_of_the_others_leaves() {
    let registry = Registry::new();
    let (family, known) = full::<Counter>(&registry, ());
    let refused = family.get(labels(2));
    refused.incr();
    drop(known);
    let start = Instant::now();
    let other = r#"few{n="other",kind="other"} 1"#;
    assert!(registry.render(RETAIN, start).contains(other));
    let text = registry.render(RETAIN, start + RETAIN);
    assert!(text.contains("# TYPE few counter") && text.contains(other));
    assert!(!text.contains("kind=\"number\""), "{text}");
    // It had no room before.
    let again = family.get(labels(2));
    again.add(2);
    refused.incr();
    let text = registry.render(RETAIN, start + RETAIN);
    assert!(text.contains(r#"few{n="2",kind="number"} 2"#), "{text}");
    assert!(text.contains(r#"few{n="other",kind="other"} 2"#), "{text}");
    drop(refused);
    registry.render(RETAIN, start + RETAIN);
    let text = registry.render(RETAIN, start + 2 * RETAIN);
    assert!(!text.contains("other\""), "{text}");
}

#[test]
fn the_series_of_the_others_is_never_there_twice() {
    let registry = Registry::new();
    let other = || Labels::new().with("n", "other").with("kind", "other");
    let (family, known) = full::<Counter>(&registry, ());
    let refused = family.get(labels(2));
    drop(known);
    registry.render(Duration::ZERO, Instant::now());
    let same = family.get(other());
    refused.incr();
    same.incr();
    let text = render(&registry);
    assert_eq!(text.matches(r#"few{n="other",kind="other"} 2"#).count(), 1);

    let registry = Registry::new();
    let family = registry.family::<Counter>(RegistryStyle::Legacy, "few", "Few", (), 1);
    let (same, refused) = (family.get(other()), family.get(labels(2)));
    refused.incr();
    same.incr();
    let text = render(&registry);
    assert_eq!(text.matches(r#"few{n="other",kind="other"} 2"#).count(), 1);
}

#[test]
fn histograms_beyond_the_limit_keep_their_buckets_and_gauges_are_not_shown() {
    let registry = Registry::new();
    let (family, _known) = full::<Histogram>(&registry, BYTES.into());
    family.get(labels(2)).observe(500);
    family.get(labels(3)).observe(100);
    let text = render(&registry);
    for line in [
        r#"few_bucket{n="other",kind="other",le="128.0"} 1"#,
        r#"few_bucket{n="other",kind="other",le="1024.0"} 2"#,
        r#"few_count{n="other",kind="other"} 2"#,
        r#"few_sum{n="other",kind="other"} 600.0"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let registry = Registry::new();
    let (family, _known) = full::<Gauge>(&registry, ());
    family.get(labels(2)).set(7);
    let text = render(&registry);
    assert!(!text.contains("other\"") && !text.contains(" 7"), "{text}");
    assert!(text.contains(r#"series_refused_total{family="few"} 1"#));
}

#[test]
fn a_document_of_many_pieces_has_the_series_of_the_others_once() {
    let registry = Registry::new();
    let family = registry.family::<Counter>(RegistryStyle::Legacy, "few", "Few", (), 5000);
    let all: Vec<_> = (0..6000).map(|n| family.get(labels(n))).collect();
    all.iter().for_each(Counter::incr);
    let text = render(&registry);
    let other = r#"few{n="other",kind="other"} 1000"#;
    assert_eq!(text.matches("kind=\"number\"").count(), 5000);
    assert_eq!(text.matches(other).count(), 1);
}

#[test]
fn histograms_are_cumulative() {
    let registry = Registry::new();
    let latency = registry.histogram(RegistryStyle::Legacy, "l_ms", "L", LATENCY_MS);
    let size = registry.histogram(RegistryStyle::OpenMetrics, "s_bytes", "S", BYTES);
    let (latency, size) = (
        latency.get(Labels::new()),
        size.get(Labels::new().with("a", 1)),
    );
    latency.observe_duration(Duration::from_millis(4));
    latency.observe_duration(Duration::from_secs(100));
    size.observe(128);
    let text = render(&registry);
    for line in [
        "l_ms_bucket{le=\"3\"} 0",
        "l_ms_bucket{le=\"4\"} 1",
        "l_ms_bucket{le=\"+Inf\"} 2",
        "l_ms_count 2\nl_ms_sum 100004",
        "s_bytes_bucket{a=\"1\",le=\"128.0\"} 1",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
