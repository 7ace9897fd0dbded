//! Tips of a refused command line: the command that was probably meant.

use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// Adds the tip to the error, if there is one for these words, of which the first is the program.
pub fn with_tip(mut error: Error, words: &[String]) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(&**text),
        _ => None,
    };
    let command = words.get(1).map_or("", |word| &**word);
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg)
            .filter(|word| !word.starts_with('-'))
            .and_then(|word| of_stray_word(command, word)),
        ErrorKind::InvalidSubcommand => {
            text(ContextKind::InvalidSubcommand).and_then(of_unknown_command)
        }
        ErrorKind::MissingRequiredArgument if command == "explain" => {
            of_missing_method(&words[2..])
        }
        ErrorKind::ValueValidation => {
            let option = text(ContextKind::InvalidArg).filter(|arg| arg.ends_with("<ADDR>"));
            option
                .and(text(ContextKind::InvalidValue))
                .and_then(of_address)
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

/// A word that belongs to an option: `run mesh.yaml`, `check 127.0.0.1:4191`.
fn of_stray_word(command: &str, word: &str) -> Option<String> {
    let option = match command {
        "run" | "control" | "check" | "explain" | "env" if is_file(word) => "--mesh",
        "quickstart" if is_file(word) => "--file",
        "check" | "explain" | "tap" if word.parse::<SocketAddr>().is_ok() => "--admin",
        _ => return None,
    };
    Some(format!(
        "{word:?} is a value of '{option}': linkerd-proxy {command} … {option} {word}"
    ))
}

/// A value in place of a command: `linkerd-proxy mesh.yaml`.
fn of_unknown_command(word: &str) -> Option<String> {
    if is_file(word) {
        Some(format!(
            "run the proxy with this file: linkerd-proxy run --mesh {word}"
        ))
    } else if word.contains("://") {
        Some(format!(
            "explain a request: linkerd-proxy explain GET {word}"
        ))
    } else {
        None
    }
}

/// `explain http://web/`, whose first word stands for the method.
fn of_missing_method(words: &[String]) -> Option<String> {
    let is_method = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    let word = match words {
        [word] if !word.starts_with('-') && !is_method(word) => word,
        words => words.iter().find(|word| word.contains("://"))?,
    };
    let url = match word.contains("://") {
        true => word.clone(),
        false => format!("http://{word}"),
    };
    Some(format!(
        "the method comes before the URL: linkerd-proxy explain GET {url}"
    ))
}

/// An address in another form: a URL, a port alone, `localhost`, IPv6 without brackets.
fn of_address(value: &str) -> Option<String> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => ("", rest),
    };
    let port = port.parse().ok()?;
    let ip: IpAddr = match host {
        "" | "*" | "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => match host.trim_matches(['[', ']']).parse::<Ipv6Addr>() {
            Ok(ip) => ip.into(),
            Err(_) => host.parse().ok()?,
        },
    };
    Some(format!(
        "write an IP address and a port: {}",
        SocketAddr::new(ip, port)
    ))
}

/// Whether the word is the name of a file, or looks like that of a file that is missing.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json")) || path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_another_form_is_written_as_one() {
        for (value, address) in [
            ("http://127.0.0.1:4191/", "127.0.0.1:4191"),
            ("localhost:4191", "127.0.0.1:4191"),
            (":4191", "127.0.0.1:4191"),
            ("4191", "127.0.0.1:4191"),
            ("::1:9001", "[::1]:9001"),
            ("http://[::1]:9001/ready", "[::1]:9001"),
        ] {
            let tip = of_address(value);
            assert!(
                tip.as_ref().is_some_and(|tip| tip.ends_with(address)),
                "{value}: {tip:?}"
            );
        }
        for value in [
            "",
            "web:4191",
            "127.0.0.1",
            "127.0.0.1:",
            "1.2.3.4:99999",
            "é",
        ] {
            assert_eq!(of_address(value), None, "{value}");
        }
    }

    #[test]
    fn a_word_that_no_option_takes_has_no_tip() {
        assert_eq!(of_stray_word("run", "fast"), None);
        assert_eq!(of_stray_word("tap", "mesh.yaml"), None);
        assert_eq!(of_unknown_command("strat"), None);
        assert_eq!(of_missing_method(&["GET".to_owned()]), None);
        assert_eq!(of_missing_method(&[]), None);
    }
}
