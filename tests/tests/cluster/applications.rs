//! Applications without any configuration, including real ones.

use crate::ways::{Way, Ways};
use linkerd_tests::{
    Grpc, Http1, Http2, Message, SOON, Server, Tcp, Wire, echo, eventually, grpc_handler,
    is_installed, netns::isolated, reply, soon,
};
use std::{fs, path::Path, process::Command};
use tokio::{io::AsyncWriteExt, net::TcpStream};

#[test]
fn http_and_grpc() {
    isolated("applications::http_and_grpc", async {
        let ways = Ways::start().await;
        let mut servers = Vec::new();
        for pod in ways.servers() {
            let starting = pod.enter(async {
                let hello = |_| async { reply("hello") };
                let http = Server::builder().at(pod.at(8080)).start(hello).await;
                let grpc = Server::builder().at(pod.at(9090)).start(grpc_handler).await;
                (http, grpc)
            });
            servers.push(starting.await);
        }
        for Way { name, client, to } in ways.to(8080) {
            let talk = async {
                let mut http1 = Http1::connect(to).await.host_form();
                let http2 = Http2::connect(to).await;
                for _ in 0..3 {
                    let old = soon(http1.get("http://api.test/")).await.unwrap();
                    let new = soon(http2.get("http://api.test/")).await.unwrap();
                    assert_eq!((old.text(), new.text()), ("hello", "hello"), "{name}");
                }
            };
            client.enter(talk).await;
        }
        for Way { name, client, to } in ways.to(9090) {
            let talk = async {
                let client = Grpc::new(Http2::connect(to).await, "api.test");
                let answer = soon(client.unary(Message::new("hello", 1))).await.unwrap();
                assert_eq!(answer.text, "hello", "{name}");
            };
            client.enter(talk).await;
        }
    });
}

#[test]
fn a_protocol_whose_server_speaks_first() {
    isolated(
        "applications::a_protocol_whose_server_speaks_first",
        async {
            let ways = Ways::impatient().await;
            let mut servers = Vec::new();
            for pod in ways.servers() {
                let greets = |mut socket: TcpStream| async {
                    let _ = socket.write_all(b"220 ready\r\n").await;
                    echo(socket).await;
                };
                let starting = pod.enter(Tcp::start_at(pod.at(2525), greets));
                servers.push(starting.await);
            }
            for Way { name, client, to } in ways.to(2525) {
                let talk = async {
                    for _ in 0..2 {
                        let mut wire = Wire::connect(to).await;
                        assert_eq!(wire.until(b"\n").await, "220 ready\r\n", "{name}");
                        wire.send("QUIT\r\n").await;
                        assert_eq!(wire.until(b"\n").await, "QUIT\r\n", "{name}");
                    }
                };
                client.enter(talk).await;
            }
        },
    );
}

#[test]
fn redis() {
    if !is_installed("redis-server", "/usr/bin/redis-server")
        || !is_installed("redis-tools", "/usr/bin/redis-benchmark")
    {
        return;
    }
    isolated("applications::redis", async {
        let ways = Ways::start().await;
        let mut servers = Vec::new();
        for pod in ways.servers() {
            let line = "redis-server --port 6379 --protected-mode no --dir /tmp --stop-writes-on-bgsave-error no";
            servers.push(pod.start("nobody", line).await);
        }
        for Way { name, client, to } in ways.to(6379) {
            let host = to.ip().to_string();
            let ask = async |words: &str| {
                let mut all = vec!["redis-cli", "-h", &host];
                all.extend(words.split(' '));
                client.run(&all).await
            };
            eventually(SOON, name, || async { ask("ping").await.ok() }).await;
            assert_eq!(ask("set key value").await.unwrap(), "OK", "{name}");
            assert_eq!(ask("get key").await.unwrap(), "value", "{name}");
            let load = "redis-benchmark -q -t set,get -n 2000 -c 20 -P 8 -d 3000 -h";
            let mut load: Vec<_> = load.split(' ').collect();
            load.push(&host);
            let said = client.run(&load).await.unwrap();
            assert!(said.contains("requests per second"), "{name}: {said}");
        }
    });
}

#[test]
fn postgresql() {
    if !is_installed("postgresql", "/usr/lib/postgresql") {
        return;
    }
    isolated("applications::postgresql", async {
        let ways = Ways::start().await;
        let files = tempfile::tempdir().unwrap();
        let programs = newest(Path::new("/usr/lib/postgresql"));
        let program = |name: &str| format!("{programs}/bin/{name}");
        let mut servers = Vec::new();
        for (number, pod) in ways.servers().into_iter().enumerate() {
            let data = files.path().join(number.to_string()).display().to_string();
            let owned = format!("install -d -o postgres {data}");
            run(&owned);
            let init = program("initdb");
            run(&format!(
                "setpriv --reuid=postgres --clear-groups -- {init} -A trust -N -D {data}"
            ));
            fs::write(
                format!("{data}/pg_hba.conf"),
                "host all all 0.0.0.0/0 trust\n",
            )
            .unwrap();
            let server = program("postgres");
            let line = format!("{server} -D {data} -h 0.0.0.0 -k {data} -F");
            // The parent directories belong to this user.
            run(&format!("chmod 755 {}", files.path().display()));
            servers.push(pod.start("postgres", &line).await);
        }
        let (psql, bench) = (program("psql"), program("pgbench"));
        for Way { name, client, to } in ways.to(5432) {
            let database = format!("host={} user=postgres dbname=postgres", to.ip());
            let ask = [&psql, "-At", "-d", &database, "-c", "select 6 * 7"];
            let answer = eventually(SOON, name, || async { client.run(&ask).await.ok() });
            assert_eq!(answer.await, "42", "{name}");
            let prepare = [&bench, "-i", "-q", "-s", "1", &database];
            client.run(&prepare).await.unwrap();
            let load = [&bench, "-n", "-c", "4", "-t", "25", &database];
            let said = client.run(&load).await.unwrap();
            let all = "number of transactions actually processed: 100/100";
            assert!(said.contains(all), "{name}: {said}");
        }
    });
}

/// The directory of the newest version.
fn newest(directory: &Path) -> String {
    let versions = fs::read_dir(directory).unwrap();
    let versions = versions.map(|entry| entry.unwrap().path().display().to_string());
    versions.max().unwrap()
}

fn run(line: &str) {
    let words: Vec<_> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}
