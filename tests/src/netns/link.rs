//! A capture of the traffic on the link between two pods.

use socket2::{Domain, Protocol, Socket, Type};
use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    net::{Ipv4Addr, SocketAddrV4},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A capture of the packets of this namespace, except for loopback.
pub struct Capture {
    is_over: Arc<AtomicBool>,
    reading: JoinHandle<Captured>,
}

/// The bytes of each direction of each TCP connection, by sender and receiver.
#[derive(Debug, Default)]
pub struct Captured(BTreeMap<(SocketAddrV4, SocketAddrV4), Flow>);

#[derive(Debug, Default)]
struct Flow {
    /// The sequence number of the first byte.
    first: u32,
    bytes: Vec<u8>,
}

impl Capture {
    /// Starts the capture.
    pub fn start() -> Self {
        let all = Protocol::from(i32::from(ETH_P_ALL.to_be()));
        let mut socket = Socket::new(Domain::PACKET, Type::RAW, Some(all)).unwrap();
        socket.set_read_timeout(Some(POLL)).unwrap();
        socket.set_recv_buffer_size(BUFFER).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let reading = thread::spawn(move || {
            let mut captured = Captured::default();
            let mut frame = vec![0; LARGEST];
            loop {
                match socket.read(&mut frame) {
                    Ok(count) => captured.add(&frame[..count]),
                    Err(error) if is_timeout(error.kind()) && over.load(SeqCst) => return captured,
                    Err(error) if is_timeout(error.kind()) => {}
                    Err(error) => panic!("the capture: {error}"),
                }
            }
        });
        Self { is_over, reading }
    }

    /// Ends the capture.
    pub fn finish(self) -> Captured {
        self.is_over.store(true, SeqCst);
        self.reading.join().unwrap()
    }
}

impl Captured {
    /// Adds an Ethernet frame. Frames of loopback have no addresses.
    fn add(&mut self, frame: &[u8]) {
        let is_ipv4 = frame.len() > 34 && frame[12..14] == [8, 0];
        if !is_ipv4 || frame[..12] == [0; 12] {
            return;
        }
        let packet = &frame[14..];
        let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let head = usize::from(packet[0] & 0xf) * 4;
        let is_tcp = packet[9] == 6;
        let Some(segment) = packet.get(head..length).filter(|_| is_tcp) else {
            return;
        };
        let host =
            |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let from = SocketAddrV4::new(host(12), port(0));
        let to = SocketAddrV4::new(host(16), port(2));
        let number = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
        let payload = &segment[usize::from(segment[12] >> 4) * 4..];
        let flow = self.0.entry((from, to)).or_default();
        let begins = segment[13] & SYN != 0;
        if begins {
            flow.first = number.wrapping_add(1);
            return;
        }
        // Other segments are retransmissions, or seen at both ends of the link.
        let at = number.wrapping_sub(flow.first) as usize;
        if at == flow.bytes.len() {
            flow.bytes.extend_from_slice(payload);
        }
    }

    /// The number of connections with bytes to a host.
    pub fn connections_to(&self, host: Ipv4Addr) -> usize {
        let flows = self.0.iter();
        let with_bytes = flows.filter(|((_, to), flow)| *to.ip() == host && !flow.bytes.is_empty());
        with_bytes.count()
    }

    /// Asserts that all bytes in both directions are records of TLS.
    pub fn is_tls(&self) {
        for ((from, to), flow) in &self.0 {
            let mut bytes = &flow.bytes[..];
            while let [kind, 3, minor, high, low, rest @ ..] = bytes {
                assert!(
                    (20..=23).contains(kind) && *minor <= 4,
                    "{from} {to}: {bytes:?}"
                );
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                // The last record may be cut off by the end of the connection.
                bytes = rest.get(length..).unwrap_or_default();
            }
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
            assert!(bytes.len() < 5, "no TLS from {from} to {to}: {shown}");
        }
    }

    /// Whether a text crossed the link unencrypted.
    pub fn contains(&self, text: &str) -> bool {
        let mut flows = self.0.values();
        flows.any(|flow| {
            let mut windows = flow.bytes.windows(text.len());
            windows.any(|window| window == text.as_bytes())
        })
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// All protocols, in the kernel's constants.
const ETH_P_ALL: u16 = 3;
const SYN: u8 = 2;
/// Interval in which the end of a capture is noticed.
const POLL: Duration = Duration::from_millis(20);
/// The largest frame, with segments that the network card would split.
const LARGEST: usize = 128 * 1024;
const BUFFER: usize = 16 << 20;
