//! A name server on port 53 of a namespace's loopback address, and the system's configuration for it.

use parking_lot::Mutex;
use std::{net::Ipv4Addr, process::Command, sync::Arc};
use tokio::net::UdpSocket;

/// A name server whose answers for all names are set by the test. It never answers AAAA and SRV queries, except for names
/// that do not exist.
pub struct DnsServer {
    zone: Arc<Mutex<Zone>>,
}

/// The answer to an A query.
#[derive(Clone, Copy, Debug)]
pub enum Zone {
    /// An address with a time to live of 0.
    Address(Ipv4Addr),
    /// No error, and no records.
    Empty,
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    Failing,
}

impl DnsServer {
    /// Starts the server, and makes it the system's. The caller is in a mount namespace of its own, as in
    /// [`isolated`](crate::netns::isolated).
    pub async fn start(zone: Zone) -> Self {
        let file =
            std::env::temp_dir().join(format!("linkerd-tests-{}.resolv", std::process::id()));
        std::fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
        let mut mount = Command::new("mount");
        mount.arg("--bind").arg(&file).arg("/etc/resolv.conf");
        assert!(mount.status().unwrap().success());
        let socket = UdpSocket::bind("127.0.0.1:53").await.unwrap();
        let zone = Arc::new(Mutex::new(zone));
        tokio::spawn(serve(socket, zone.clone()));
        Self { zone }
    }

    /// Changes the answers.
    pub fn set(&self, zone: Zone) {
        *self.zone.lock() = zone;
    }
}

async fn serve(socket: UdpSocket, zone: Arc<Mutex<Zone>>) {
    let mut query = [0; 512];
    loop {
        let (len, from) = socket.recv_from(&mut query).await.unwrap();
        let zone = *zone.lock();
        if let Some(answer) = answer(&query[..len], zone) {
            socket.send_to(&answer, from).await.unwrap();
        }
    }
}

/// The answer to a query (RFC 1035, 4.1); `None` for silence.
fn answer(query: &[u8], zone: Zone) -> Option<Vec<u8>> {
    let name = query[12..].iter().position(|byte| *byte == 0).unwrap();
    let question = &query[12..12 + name + 5];
    let is_a = question[name + 1..name + 3] == [0, 1];
    let (code, address) = match zone {
        Zone::NoSuchName => (3, None),
        _ if !is_a => return None,
        Zone::Address(address) => (0, Some(address)),
        Zone::Empty => (0, None),
        Zone::Failing => (2, None),
    };
    let mut answer = query[..2].to_vec();
    // A response with recursion, to one question, with as many records as there are addresses.
    answer.extend([
        0x85,
        0x80 | code,
        0,
        1,
        0,
        u8::from(address.is_some()),
        0,
        0,
        0,
        0,
    ]);
    answer.extend(question);
    if let Some(address) = address {
        // The name of the question, A, IN, 0 s, 4 bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
