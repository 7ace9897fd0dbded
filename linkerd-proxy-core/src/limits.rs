//! Library defaults that matter, all set explicitly, each with its reason.

use std::time::Duration;

/// Header fields of an HTTP/1 message. hyper's default and the incumbent's.
pub const HTTP1_MAX_HEADERS: usize = 100;

/// The time for the rest of a TLS client's first message. The message fits two packets, which clients send at once: two seconds allow for
/// one that is lost and sent again.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for exchanges over a connection whose peer is trusted no more. Requests take less, and streams begin anew.
pub const UNTRUSTED_GRACE: Duration = Duration::from_secs(5);

/// Bytes of an HTTP/1 head. hyper's default and the incumbent's: users have heads of hundreds of kilobytes, and buffers
/// grow only as far as a head needs.
pub const HTTP1_MAX_BUFFER: usize = 8192 + 4096 * HTTP1_MAX_HEADERS;

/// Half-sent request heads of one direction of a worker: 5 MB of heads of a usual size. Heads arrive in one piece, except
/// from slow or hostile clients.
pub const HTTP1_HALF_SENT: usize = 1024;

/// Bytes of these heads in all, as one may be as long as [`HTTP1_MAX_BUFFER`].
pub const HTTP1_HALF_SENT_BYTES: usize = 8 * 1024 * 1024;

/// Idle time of a connection to an endpoint before its buffers are freed. Detaching hyper and attaching it again costs
/// a few microseconds, which is nothing at two times a second.
pub const HTTP1_PARK: Duration = Duration::from_millis(500);

/// Pools of one direction of a worker whose idle connections may keep buffers for that long: 1.5 MB with one connection
/// each. Few proxies use as many endpoints at a time.
pub const HTTP1_WARM_POOLS: usize = 64;

/// Idle time before buffers are freed when more pools have idle connections. It is also the interval of the check, so
/// that it takes up to twice as long. A thousand connections used in turn at full speed are back after 25 ms.
pub const HTTP1_PARK_CROWDED: Duration = Duration::from_millis(50);

/// The HTTP/2 window of a stream, in bytes. RFC 9113's initial value and the incumbent's default.
pub const HTTP2_STREAM_WINDOW: u32 = 65_535;

/// The HTTP/2 window of a connection of our servers, in bytes.
///
/// h2 also ends a connection whose unread DATA frames, each below 256 bytes counted for the missing ones, come to half of it: some
/// 8,000 frames. With the incumbent's 1 MiB, one paused upload of small messages ended all others (hyperium/h2#939).
pub const HTTP2_SERVER_CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// The HTTP/2 window of a connection of our clients, in bytes; some 33,000 unread frames. An endpoint's connection has the streams of
/// many clients, each of which may pause.
pub const HTTP2_CLIENT_CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// The most responses that nobody reads beside which an endpoint's connection takes further streams, while another connection is
/// allowed.
pub const HTTP2_UNREAD_STREAMS: u32 = 16;

/// SETTINGS_MAX_HEADER_LIST_SIZE of our servers, in bytes. hyper's default and the incumbent's.
pub const HTTP2_SERVER_HEADER_LIST: u32 = 16 * 1024;

/// SETTINGS_MAX_HEADER_LIST_SIZE of our clients, in bytes. Larger than the 16 KiB that cut off gRPC status details in
/// trailers for users of the incumbent.
pub const HTTP2_CLIENT_HEADER_LIST: u32 = 64 * 1024;

/// Bytes buffered for sending on a stream of our servers. hyper's default and the incumbent's.
pub const HTTP2_SERVER_SEND_BUFFER: usize = 400 * 1024;

/// Bytes buffered for sending on a stream of our clients. hyper's default and the incumbent's.
pub const HTTP2_CLIENT_SEND_BUFFER: usize = 1024 * 1024;

/// Streams that a peer may open and reset before the proxy has processed them, against rapid resets (CVE-2023-44487). h2's
/// default and the incumbent's.
pub const HTTP2_PENDING_ACCEPT_RESET_STREAMS: usize = 20;

/// Frames for streams that the proxy has reset and forgotten, over the life of a connection, before the connection is closed. They
/// cross a reset on their way, which is nobody's fault; the incumbent's 1,024 ended connections after as many cancelled calls.
pub const HTTP2_LOCAL_ERROR_RESET_STREAMS: usize = 16_384;

/// Streams of an endpoint's connection that were reset within the last second, whose crossing frames are ignored; h2 forgets others.
pub const HTTP2_REMEMBERED_RESETS: usize = 1024;

/// Cancelled streams, and small frames that passed unread, after which an endpoint's connection takes no other stream: h2 counts what
/// crosses a reset for the life of the connection, and ends it with all of its streams at twice as many frames.
pub const HTTP2_WORN_AFTER: usize = 8192;

/// hyper's value for a stream limit that the peer has not sent yet.
pub const HTTP2_UNKNOWN_STREAM_LIMIT: usize = 1_000_003;

/// Time that a new HTTP/2 connection waits for its peer's settings before it is used without them.
pub const HTTP2_SETTINGS_WAIT: Duration = Duration::from_secs(1);

/// Time without a frame, while requests are open, after which a proxy of the mesh gets a PING.
pub const PEER_PING_INTERVAL: Duration = Duration::from_secs(5);

/// Time for its answer, or else its node is taken to be gone: several retransmissions on a link that loses packets.
pub const PEER_PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which a waiting reconnect checks whether its service is still in use.
pub const PROBE_CHECK: Duration = Duration::from_secs(5);
