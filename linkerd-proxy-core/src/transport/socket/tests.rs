use super::*;
use crate::transport::deliveries;
use rustix::net::{SendFlags, send};
use std::{future::poll_fn, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::yield_now,
    time::timeout,
};

/// Both ends of a connection.
pub(in crate::transport) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap());
    let (near, far) = tokio::join!(near, listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// Both ends of a connection, on a thread with an outbox.
async fn posting() -> (Socket, TcpStream) {
    let (near, far) = pair().await;
    tokio::spawn(deliveries());
    yield_now().await;
    (near.into(), far)
}

/// Bytes that have arrived, if any. Loopback delivers before the sender's call returns.
fn come(far: &TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 1024 * 1024];
    let count = rustix::net::recv(far, bytes.as_mut_slice(), rustix::net::RecvFlags::DONTWAIT);
    bytes.truncate(count.map_or(0, |(_, count)| count));
    bytes
}

/// Writes until the system accepts no more; returns the number of bytes.
async fn stuff(near: &mut Socket) -> usize {
    let block = vec![b'.'; 64 * 1024];
    let mut written = 0;
    loop {
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *near).poll_write(cx, &block))).await;
        match polled {
            Poll::Ready(count) => written += count.unwrap(),
            Poll::Pending => return written,
        }
    }
}

/// Reads until the runtime sees the socket as writable, then fills it directly. Returns the number of bytes read.
async fn refill(near: &Socket, far: &TcpStream) -> usize {
    loop {
        tokio::select! {
            biased;
            room = near.stream().writable() => break room.unwrap(),
            more = far.readable() => {
                more.unwrap();
                let _ = far.try_read(&mut vec![0; 64 * 1024]);
            }
        }
    }
    let mut written = 0;
    while let Ok(count) = send(near.stream(), &[b'.'; 4096], SendFlags::DONTWAIT) {
        written += count;
    }
    written
}

#[tokio::test]
async fn short_writes_leave_at_the_end_of_the_round_together() {
    let (mut near, far) = posting().await;
    let (mut other, other_far) = posting().await;
    near.write_all(b"head").await.unwrap();
    other.write_all(b"other").await.unwrap();
    near.write_all(b" and body").await.unwrap();
    near.flush().await.unwrap();
    assert_eq!(come(&far), b"");
    yield_now().await;
    assert_eq!(come(&far), b"head and body");
    assert_eq!(come(&other_far), b"other");
}

#[tokio::test]
async fn a_long_write_does_not_overtake_a_short_one() {
    let (mut near, far) = posting().await;
    near.write_all(b"short").await.unwrap();
    near.write_all(&[b'.'; SHORT_AND_MORE]).await.unwrap();
    let come = come(&far);
    assert!(come.starts_with(b"short..."));
    assert_eq!(come.len(), 5 + SHORT_AND_MORE);
}

#[tokio::test]
async fn a_round_gathers_no_more_than_its_bounds() {
    let (mut near, far) = posting().await;
    let (mut other, _other_far) = posting().await;
    for _ in 0..16 {
        near.write_all(b"a").await.unwrap();
        other.write_all(b"b").await.unwrap();
    }
    assert_eq!(come(&far).len(), 16, "letters");
    for _ in 0..8 {
        near.write_all(&[b'.'; 2048]).await.unwrap();
    }
    assert_eq!(come(&far).len(), 8 * 2048, "bytes");
}

#[tokio::test]
async fn what_is_posted_leaves_before_the_end() {
    let (mut near, mut far) = posting().await;
    near.write_all(b"bye").await.unwrap();
    near.shutdown().await.unwrap();
    let mut read = Vec::new();
    far.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"bye");
    let (mut near, mut far) = posting().await;
    near.write_all(b"dropped").await.unwrap();
    drop(near);
    read.clear();
    far.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"dropped");
}

#[tokio::test]
async fn without_deliveries_everything_is_written_at_once() {
    let (mut near, far) = posting().await;
    let written = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(near.write_all(b"at once")).unwrap();
        near
    });
    let near = written.join().unwrap();
    assert_eq!(come(&far), b"at once");
    drop(near);
}

#[tokio::test]
async fn what_the_system_does_not_take_is_sent_when_it_does_even_if_the_socket_is_gone() {
    let (mut near, mut far) = posting().await;
    let mut written = stuff(&mut near).await;
    written += refill(&near, &far).await;
    near.write_all(b"the last word").await.unwrap();
    yield_now().await;
    let flushed = poll_fn(|cx| Poll::Ready(Pin::new(&mut near).poll_flush(cx))).await;
    assert!(flushed.is_pending(), "the last word is stuck");
    let more = poll_fn(|cx| Poll::Ready(Pin::new(&mut near).poll_write(cx, b"more"))).await;
    assert!(more.is_pending(), "nothing overtakes it");
    drop(near);
    let mut read = Vec::new();
    far.read_to_end(&mut read).await.unwrap();
    assert!(read.ends_with(b"the last word"));
    assert!(read.len() <= written + 13);
}

#[tokio::test]
async fn a_writer_that_waits_is_woken_when_what_was_stuck_is_sent() {
    let (mut near, far) = posting().await;
    stuff(&mut near).await;
    refill(&near, &far).await;
    near.write_all(b"stuck").await.unwrap();
    yield_now().await;
    let reader = tokio::spawn(async move {
        let mut far = far;
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        read
    });
    near.write_all(b", then more").await.unwrap();
    near.shutdown().await.unwrap();
    assert!(reader.await.unwrap().ends_with(b"stuck, then more"));
}

#[tokio::test]
async fn what_cannot_be_sent_fails_whoever_reads_or_writes_next() {
    let (mut near, far) = posting().await;
    near.write_all(b"lost").await.unwrap();
    // Closing with unread bytes resets the connection.
    far.set_zero_linger().unwrap();
    drop(far);
    yield_now().await;
    let read = near.read(&mut [0; 16]).await.unwrap_err();
    assert_eq!(read.kind(), io::ErrorKind::ConnectionReset);
    let write = near.write_all(b"more").await.unwrap_err();
    assert_eq!(write.kind(), io::ErrorKind::ConnectionReset);
    assert!(near.flush().await.is_err());
}

#[tokio::test]
async fn a_task_that_always_goes_on_holds_no_write_up() {
    let (mut near, mut far) = posting().await;
    let busy = tokio::spawn(async {
        loop {
            yield_now().await;
        }
    });
    near.write_all(b"in time").await.unwrap();
    let mut read = [0; 7];
    let limit = Duration::from_secs(5);
    let come = timeout(limit, far.read_exact(&mut read)).await;
    come.expect("the round ends though the thread is busy")
        .unwrap();
    busy.abort();
}

#[tokio::test]
async fn who_has_read_the_end_is_told_by_the_write_itself() {
    let (mut near, mut far) = posting().await;
    far.shutdown().await.unwrap();
    assert_eq!(near.read(&mut [0; 16]).await.unwrap(), 0);
    near.write_all(b"at once").await.unwrap();
    assert_eq!(come(&far), b"at once");
    far.set_zero_linger().unwrap();
    drop(far);
    assert!(near.write_all(b"lost").await.is_err());
}

const SHORT_AND_MORE: usize = 3 * 1024;

#[tokio::test]
async fn a_task_that_always_finds_something_to_read_gives_way() {
    let (near, mut far) = pair().await;
    let mut near = Socket::from(near);
    const ALL: usize = 4 * 1024 * 1024;
    let writes = tokio::spawn(async move { far.write_all(&vec![b'.'; ALL]).await });
    let (mut all, mut at_once) = (0, 0);
    let mut bytes = vec![0; 48 * 1024];
    while all < ALL {
        poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut bytes);
            let polled = Pin::new(&mut near).poll_read(cx, &mut buf);
            let count = buf.filled().len();
            all += count;
            at_once = if polled.is_ready() {
                at_once + count
            } else {
                0
            };
            polled
        })
        .await
        .unwrap();
        assert!(at_once <= READ_TURN as usize, "{at_once}");
    }
    writes.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_of_the_peers_side_is_seen_without_a_read() {
    let (near, mut far) = pair().await;
    let mut near = Socket::from(near);
    let peek = near.peek().unwrap();
    let mut ended = tokio_test::task::spawn(poll_fn(|cx| peek.poll_ended(cx)));
    assert!(ended.poll().is_pending());
    far.write_all(b"more").await.unwrap();
    far.shutdown().await.unwrap();
    near.stream().readable().await.unwrap();
    assert!(ended.poll().is_pending(), "bytes come before the end");
    drop(ended);
    near.read_exact(&mut [0; 4]).await.unwrap();
    poll_fn(|cx| peek.poll_ended(cx)).await.unwrap();
    assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0, "it was not taken");
}

#[tokio::test]
async fn a_reset_is_seen_without_a_read() {
    let (near, far) = pair().await;
    let near = Socket::from(near);
    let peek = near.peek().unwrap();
    far.set_zero_linger().unwrap();
    drop(far);
    let error = poll_fn(|cx| peek.poll_ended(cx)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}
