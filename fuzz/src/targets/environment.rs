//! The grammars of the environment's variables.
//!
//! The first byte of a part chooses a variable, the others are its value.

use super::{Target, join, parts};
use linkerd_app::config::{
    Config, Env, VARIABLES, effective_text, variables::VariableDefault::Required,
};

pub(super) const TARGET: Target = Target {
    name: "environment",
    run,
    seeds: || {
        let values = [
            "5ms",
            "1h",
            "",
            "true",
            "10.0.0.1:80",
            "[::1]:4140,127.0.0.1:4140",
            "web.svc:8090",
            "1-5,80,443",
            "10.0.0.0/8,fd00::/8",
            ".",
            "svc.cluster.local.",
            "0.1",
            "warn,linkerd=info",
            "spiffe://root/ns/a",
            "18446744073709551616",
            "100d",
            "cluster-unauthenticated",
        ];
        let mut seeds = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let part = |offset: usize| {
                let chosen = u8::try_from((index * 7 + offset) % VARIABLES.len()).unwrap_or(0);
                [&[chosen], value.as_bytes()].concat()
            };
            seeds.push(join(&[part(0), part(3), part(40)]));
        }
        seeds
    },
    words: &[
        b"ms", b"d", b"/", b"-", b",", b"[::]", b"0", b"65536", b"1e400", b"NaN", b".", b":",
    ],
};

/// For any environment, the configuration is loaded or all errors are reported.
fn run(input: &[u8]) {
    let mut env = Env::default();
    for variable in VARIABLES {
        if variable.default == Required {
            env.set(variable.name, "127.0.0.1:8086");
        }
    }
    for part in parts(input) {
        let Some((chosen, value)) = part.split_first() else {
            continue;
        };
        let variable = &VARIABLES[usize::from(*chosen) % VARIABLES.len()];
        let value = String::from_utf8_lossy(value);
        // Agreement of the check with the loader has its own tests; here both must survive.
        let _ = (variable.kind.check)(&value);
        env.set(variable.name, value.into_owned());
    }
    match Config::load(&env) {
        Ok(loaded) => drop(effective_text(&loaded.effective)),
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(!errors.to_string().is_empty());
        }
    }
}
