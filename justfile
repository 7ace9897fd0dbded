# What is done often. `just` alone lists it.

default:
    @just --list

# Formatting, lints, generated documents.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test -p linkerd-app -p linkerd-proxy-core -- docs the_document_is_current

# All tests.
test:
    tests/run

# The tests of examples/own-test, with a proxy that is built first.
example:
    cargo build
    PATH={{justfile_directory()}}/target/debug:$PATH cargo test --manifest-path examples/own-test/Cargo.toml --target-dir target --locked

# The lock of examples/own-test, with the versions of the workspace.
lock-example:
    cp Cargo.lock examples/own-test/Cargo.lock
    cargo metadata --manifest-path examples/own-test/Cargo.toml --format-version 1 >/dev/null

# The Helm chart: compares what it renders with deploy/helm/rendered; `just chart --update` writes it anew.
chart *options:
    python3 -m venv target/chart
    target/chart/bin/pip install --quiet --require-hashes -r deploy/helm/requirements.txt
    target/chart/bin/python deploy/helm/render.py {{options}}

# The tests that redirect traffic in a network namespace; they need root.
netns:
    cargo test -p linkerd-tests netns

# Made-up input for everything that reads what others wrote.
fuzz seconds="10" seed="1":
    cargo run -p linkerd-fuzz -- --seconds {{seconds}} --seed {{seed}}

# The same targets under libFuzzer, with coverage: needs cargo-fuzz and a nightly compiler (fuzz/README.md).
libfuzzer target seconds="600":
    mkdir -p fuzz/libfuzzer/corpus/{{target}}
    cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer {{target}} fuzz/libfuzzer/corpus/{{target}} fuzz/corpus/{{target}} -- -max_total_time={{seconds}}

# The proxy at work on this machine.
quickstart:
    cargo run --no-default-features -- quickstart

# Screens of the console of a running proxy, such as that of the quickstart, by a headless Chromium: target/console-*.png.
console url="http://127.0.0.1:4191/console":
    for width in 375 1280; do for scheme in 0 1; do \
        chromium --headless=new --no-sandbox --hide-scrollbars --virtual-time-budget=12000 \
            --blink-settings=preferredColorScheme=$scheme --window-size=$width,1600 \
            --screenshot=target/console-$width-$scheme.png {{url}}; \
    done; done

# Renders the generated documents anew.
docs:
    UPDATE_DOCS=1 cargo test -p linkerd-app -p linkerd-proxy-core -- docs the_document_is_current

# Proxies side by side: docs/performance.md. `just bench --quick` shows that it works; needs root.
bench *options:
    cargo run --profile dist -p bench -- compare {{options}}

# What a request costs in counts that do not depend on the machine, against bench/budget.toml; needs root.
counts *options:
    cargo run --profile dist -p bench -- counts {{options}}
