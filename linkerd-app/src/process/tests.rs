//! The process metrics of a scrape.

use super::*;
use linkerd_proxy_core::metrics::ExpositionFormat;
use tokio::time::Instant;

fn render(registry: &Registry) -> String {
    registry.render(Duration::MAX, Instant::now())
}

#[test]
fn the_banner_is_the_incumbents() {
    let BuildInfo {
        profile, version, ..
    } = BUILD;
    let banner = banner();
    assert!(banner.starts_with(&format!("{profile} {version} (")));
    assert!(banner.contains(") by ") && banner.contains(" on 20") && banner.ends_with('Z'));
}

#[test]
fn the_build_is_a_gauge_with_sorted_labels() {
    let mut out = Vec::new();
    let build = BuildInfo {
        profile: "release",
        version: "1.2.3",
        git_sha: "abc1234",
        vendor: "a \"b\"",
        date: "2025-01-02T03:04:05Z",
    };
    write_build(
        &build,
        &mut Exposition::new(&mut out, ExpositionFormat::Text),
    );
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "# HELP proxy_build_info What this proxy was built from.\n# TYPE proxy_build_info gauge\n\
         proxy_build_info{date=\"2025-01-02T03:04:05Z\",git_sha=\"abc1234\",profile=\"release\",\
         vendor=\"a \\\"b\\\"\",version=\"1.2.3\"} 1\n"
    );
}

#[test]
fn every_family_of_the_process_is_shown() {
    let registry = Registry::new();
    register(&registry);
    let text = render(&registry);
    for name in [
        "process_start_time_seconds",
        "process_clock_time_seconds",
        "process_uptime_seconds_total",
        "process_cpu_seconds_total",
        "process_virtual_memory_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
        "process_threads",
        "proxy_build_info",
    ] {
        let sample = text.lines().find(|line| line.starts_with(name));
        assert!(sample.is_some(), "{name} in\n{text}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    let text = registry.render_as(ExpositionFormat::OpenMetrics, Duration::MAX, Instant::now());
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("# UNIT process_cpu_seconds seconds\n"));
    assert!(text.contains("# TYPE process_cpu_seconds counter\n"));
}

#[test]
fn times_have_a_point_and_counts_do_not() {
    let usage = Usage {
        start_time: Some(Duration::from_secs(100)),
        threads: Some(3),
        ..Usage::default()
    };
    let mut out = Vec::new();
    let mut text = Exposition::new(&mut out, ExpositionFormat::Text);
    write_usage(&usage, Duration::from_millis(101_500), &mut text);
    let out = String::from_utf8(out).unwrap();
    for line in [
        "process_start_time_seconds 100.0\n",
        "process_uptime_seconds_total 1.5\n",
        "process_threads 3\n",
    ] {
        assert!(out.contains(line), "{line} in\n{out}");
    }
    assert!(!out.contains("process_max_fds"), "what is not known");
}

#[test]
fn runtimes_are_summed() {
    let registry = Registry::new();
    let runtimes = runtimes(&registry);
    assert!(render(&registry).contains("tokio_rt_workers 0\n"));
    let all: Vec<_> = (0..2)
        .map(|_| {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
        })
        .collect();
    for runtime in &all {
        runtimes.add(runtime.handle().clone());
        runtime.block_on(tokio::task::yield_now());
    }
    let text = render(&registry);
    assert!(text.contains("tokio_rt_workers 2\n"), "{text}");
    for name in [
        "tokio_rt_park_total",
        "tokio_rt_busy_seconds_total",
        "tokio_rt_injection_queue_depth",
        "tokio_rt_alive_tasks",
    ] {
        assert!(text.contains(&format!("\n{name} ")), "{name} in\n{text}");
    }
}
