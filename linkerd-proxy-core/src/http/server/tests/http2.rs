//! The end of an HTTP/2 connection, frame by frame.

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The start of the head of a PING.
const PING: &[u8] = &[0, 0, 8, 6];

/// Reads a frame: its type, and its payload. `None` at the end.
async fn frame(client: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    client.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    client.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

/// Serves a client, until the end or the drain.
fn served(server: impl Duplex + Send + 'static) -> (JoinHandle<Result<(), ServeError>>, Signal) {
    let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
    let io = Io::new(server, series);
    let connection = Rc::new(Connection::default());
    let (drain, handle) = drain::channel();
    let (watch, served) = (handle.watch(), connection.clone());
    let service = hyper::service::service_fn(move |request| {
        answer(served.clone(), Uploaded::default(), request)
    });
    let settings = ServerSettings {
        header_timeout: HEADER_TIMEOUT,
        http2: Http2Settings::default(),
        half_sent: HalfSent::default(),
    };
    let serving = async move { serve_http2(io, service, &settings, connection, watch).await };
    (spawn_local(serving), drain)
}

#[tokio::test]
async fn a_client_may_write_until_it_knows_that_the_proxy_closes() {
    local(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let mut client = client.unwrap();
        let (serving, _drain) = served(Socket::from(accepted.unwrap().0));
        // GET http://a/close on stream 1.
        let get = b"\x00\x00\x0d\x01\x05\x00\x00\x00\x01\x82\x86\x41\x01a\x04\x06/close";
        let begin = [PREFACE, SETTINGS, get].concat();
        client.write_all(&begin).await.unwrap();
        let mut data = Vec::new();
        while let Some((kind, payload)) = frame(&mut client).await {
            match kind {
                0 => data.extend(payload),
                6 => {
                    let answer = [PING, &[1, 0, 0, 0, 0], &payload].concat();
                    client.write_all(&answer).await.unwrap();
                }
                _ => {}
            }
        }
        assert_eq!(data, b"/close");
        // A library that cannot write may not read the remaining frames.
        for _ in 0..2 {
            let ping = [PING, &[0; 13]].concat();
            client.write_all(&ping).await.unwrap();
        }
        drop(client);
        serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_a_ping_does_not_hold_up_a_drain() {
    local(async {
        let get_slow = b"\x00\x00\x0c\x01\x05\x00\x00\x00\x01\x82\x86\x41\x01a\x04\x05/slow";
        let silent = limits::PEER_PING_TIMEOUT;
        for (begin, ends_after) in [
            (PREFACE[..16].to_vec(), silent),
            ([PREFACE, SETTINGS].concat(), silent),
            // A request is finished first, and its client may still receive the answer.
            (
                [PREFACE, SETTINGS, get_slow].concat(),
                SLOW + silent + linger::SHORT,
            ),
        ] {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            let (serving, drain) = served(BufReader::new(server));
            client.write_all(&begin).await.unwrap();
            tokio::task::yield_now().await;
            let start = Instant::now();
            drain.drain().await;
            serving.await.unwrap().unwrap();
            assert_eq!(start.elapsed(), ends_after);
        }
    })
    .await;
}
