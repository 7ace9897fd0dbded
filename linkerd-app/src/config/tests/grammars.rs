//! The grammars, apart from those of addresses: accepted values, refused values and their suggested fixes.

use crate::config::grammar::*;
use crate::config::{DefaultPolicy, VARIABLES};
use proptest::prelude::*;
use std::fmt::Debug;
use std::time::Duration;

pub(super) fn accepts<T: Debug + PartialEq>(
    parse: impl Fn(&str) -> Result<T, InvalidValue>,
    cases: &[(&str, T)],
) {
    for (text, expected) in cases {
        assert_eq!(parse(text).as_ref(), Ok(expected), "{text:?}");
    }
}

pub(super) fn refuses<T: Debug>(parse: impl Fn(&str) -> Result<T, InvalidValue>, cases: &[&str]) {
    for text in cases {
        assert!(parse(text).is_err(), "{text:?} gives {:?}", parse(text));
    }
}

pub(super) fn advises<T: Debug>(
    parse: impl Fn(&str) -> Result<T, InvalidValue>,
    cases: &[(&str, &str)],
) {
    for (text, advice) in cases {
        assert_eq!(
            parse(text).unwrap_err().fix.as_deref(),
            Some(*advice),
            "{text:?}"
        );
    }
}

#[test]
fn durations() {
    let s = Duration::from_secs;
    let cases = [
        ("0", s(0)),
        ("00", s(0)),
        ("10ms", Duration::from_millis(10)),
        ("1s", s(1)),
        ("2m", s(120)),
        ("3h", s(10_800)),
        ("365d", s(365 * 86_400)),
        (" \t1s\n", s(1)),
        ("007s", s(7)),
        ("99999999999d", s(36_500 * 86_400)),
        ("18446744073709551615ms", s(36_500 * 86_400)),
    ];
    accepts(duration, &cases);
    refuses(
        duration,
        &[
            "", " ", "5", "1.5s", "1 s", "1us", "1y", "s", "-1s", "+1s", "1S", "1s1s", "0x1s", "٣s",
        ],
    );
    advises(
        duration,
        &[
            ("5", "add the unit: 5s, if seconds are meant"),
            ("1.5s", "use a smaller unit instead of a fraction"),
            ("1 s", "remove the space before the unit"),
            ("18446744073709551616s", "the number is too large"),
        ],
    );
    accepts(optional_duration, &[("", None), ("3s", Some(s(3)))]);
    refuses(optional_duration, &[" ", "3"]);
}

#[test]
fn switches() {
    accepts(boolean, &[("true", true), ("false", false)]);
    refuses(boolean, &["", "1", "yes", " true", "True", "FALSE"]);
    advises(
        boolean,
        &[
            ("yes", "write true"),
            ("0", "write false"),
            ("True", "write true"),
        ],
    );
    accepts(
        switch,
        &[("1", true), ("0", false), ("true", true), ("false", false)],
    );
    refuses(switch, &["", "yes", "2", " 1"]);
    accepts(
        authority_labels,
        &[("", false), ("unsafe", true), ("UnSafe", true)],
    );
    refuses(authority_labels, &["true", " "]);
    accepts(empty, &[("", ())]);
    refuses(empty, &["1", " "]);
}

#[test]
fn numbers() {
    accepts(
        number::<u32>,
        &[("0", 0), ("+5", 5), ("4294967295", u32::MAX)],
    );
    refuses(number::<u32>, &["", " 1", "-1", "4294967296", "1.0", "0x1"]);
    advises(number::<u32>, &[(" 1", "remove the spaces")]);
    accepts(number::<f64>, &[("0.1", 0.1), ("1", 1.0), ("1e2", 100.0)]);
    refuses(number::<f64>, &["", " 1", "0,1"]);
    accepts(positive, &[("1", 1)]);
    refuses(positive, &["0", "-1", ""]);
    refuses(core_count, &["0", "1.5", "500m"]);
    accepts(ratio, &[("0.5", 0.5), ("1", 1.0)]);
    accepts(percentile, &[("0.5", 0.5), ("99.9", 99.9)]);
    refuses(percentile, &["0", "-1", "100", "nan", "inf", "95%", ""]);
    refuses(ratio, &["0", "-0.5", "1.1", "nan", "inf", ""]);
    accepts(window, &[("65535", 65_535), ("2147483647", 2_147_483_647)]);
    refuses(window, &["2147483648", "-1"]);
    accepts(frame_size, &[("16384", 16_384), ("16777215", 16_777_215)]);
    refuses(frame_size, &["16383", "16777216"]);
    accepts(send_buffer, &[("4294967295", 4_294_967_295)]);
    refuses(send_buffer, &["4294967296"]);
}

#[test]
fn names() {
    let label = "a".repeat(63);
    let longest = [label.as_str(); 4].join(".")[..253].to_owned();
    for good in [
        "a",
        "a.b",
        "A.b.",
        "a_b._tcp.c",
        "1a",
        "1.a",
        "a-b",
        "localhost.",
        &label,
        &longest,
    ] {
        assert_eq!(dns_name(good), Ok(good.to_ascii_lowercase()), "{good}");
    }
    let (long_label, long_name) = ("a".repeat(64), format!("{longest}a"));
    let bad = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "-a",
        "a-",
        "*.a",
        "1.2.3.4",
        "a.1",
        "a b",
        "ä",
        "a/b",
        &long_label,
        &long_name,
    ];
    refuses(dns_name, &bad);
    refuses(local_name, &["a.", "1.2.3.4"]);
    advises(local_name, &[("a.", "remove the trailing dot")]);

    accepts(
        identity,
        &[
            ("Web.ns", "web.ns".to_owned()),
            ("spiffe://root/Web", "spiffe://root/Web".to_owned()),
        ],
    );
    refuses(
        identity,
        &[
            "",
            "web.",
            "spiffe://",
            "://a",
            "1a://b",
            "a b://c",
            "spiffe://a b",
            "web:80",
        ],
    );

    for (text, name, expected) in [
        ("svc.cluster.local.", "web.svc.cluster.local", true),
        (" SVC.cluster.local ,, example.com", "a.example.com.", true),
        (".", "anything", true),
        ("", "anything", false),
        ("svc.cluster.local", "mysvc.cluster.local", false),
    ] {
        assert_eq!(
            suffixes(text).unwrap().matches(name),
            expected,
            "{text:?} {name}"
        );
    }
    assert_eq!(suffixes("A.b., c").unwrap().to_string(), "a.b.,c");
    refuses(suffixes, &["a b", "a..b", "..", "*.a", "-"]);
}

#[test]
fn words() {
    use crate::config::LogFormat;
    accepts(
        log_format,
        &[("plain", LogFormat::Plain), (" JSON ", LogFormat::Json)],
    );
    refuses(log_format, &["", "xml"]);
    for policy in DefaultPolicy::ALL {
        assert_eq!(default_policy(policy.name()), Ok(policy));
    }
    refuses(default_policy, &["", "Deny", "all"]);
    refuses(non_empty, &[""]);
    accepts(text, &[("", String::new()), (" a\n", " a\n".to_owned())]);
}

#[test]
fn every_grammar_is_used() {
    for kind in KINDS {
        assert!(
            VARIABLES
                .iter()
                .any(|variable| variable.kind.name == kind.name),
            "{}",
            kind.name
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text: String) {
        for kind in KINDS {
            let _ = (kind.check)(&text);
        }
    }

    #[test]
    fn no_text_that_nearly_fits_panics(text in "[-0-9a-z.,:/ \\[\\]+_smhd]{0,24}") {
        for kind in KINDS {
            let _ = (kind.check)(&text);
        }
    }

    #[test]
    fn durations_say_what_they_mean(n in 0u64..1_000_000) {
        prop_assert_eq!(duration(&format!("{n}ms")), Ok(Duration::from_millis(n)));
        prop_assert_eq!(duration(&format!(" {n}s ")), Ok(Duration::from_secs(n)));
    }
}
