//! Clients that leave in the middle of an exchange.

use super::mesh_of;
use bytes::Bytes;
use futures::future::poll_fn;
use h2::{RecvStream, SendStream, client::SendRequest, server::SendResponse};
use http::{Request, Response};
use linkerd_tests::{Mesh, Tcp, soon};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};

/// Sends at most `length` bytes, as long as the peer takes them.
async fn send(stream: &mut SendStream<Bytes>, length: usize) {
    let mut left = length;
    while left > 0 {
        stream.reserve_capacity(left);
        let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return;
        };
        let piece = capacity.min(left);
        if stream.send_data(vec![b'.'; piece].into(), false).is_err() {
            return;
        }
        left -= piece;
    }
}

/// Reads `/slow` until the window of the connection is full, answers it with more than fits into a window, and then reads the
/// rest; other requests are read, and then answered.
async fn serve(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let is_slow = head.uri.path() == "/slow";
    let mut unreleased = 0;
    while !(is_slow && unreleased == WINDOW) {
        let Some(Ok(data)) = body.data().await else {
            break;
        };
        unreleased += data.len();
    }
    let mut response = respond.send_response(Response::new(()), false).unwrap();
    if is_slow {
        send(&mut response, 8 * WINDOW).await;
    }
    let _ = response.send_data(Bytes::new(), true);
    let _ = body.flow_control().release_capacity(unreleased);
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
    }
}

/// The window of a connection to the endpoint, in bytes.
const WINDOW: usize = 65_535;

#[tokio::test]
async fn an_upload_whose_client_has_gone_does_not_hold_up_others() {
    let server = Tcp::start(|socket| async move {
        let mut connection = h2::server::handshake(socket).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(serve(request, respond));
        }
    })
    .await;
    let mesh = mesh_of(&server).await;

    let (mut client, connection) = connect(&mesh).await;
    let request = Request::put("http://web/slow").body(()).unwrap();
    let (response, mut upload) = client.send_request(request, false).unwrap();
    let uploading = tokio::spawn(async move { send(&mut upload, 1 << 20).await });
    assert_eq!(soon(response).await.unwrap().status(), 200);
    connection.abort();
    uploading.abort();

    let (mut client, _connection) = connect(&mesh).await;
    let request = Request::put("http://web/quick").body(()).unwrap();
    let (response, mut upload) = client.send_request(request, false).unwrap();
    upload
        .send_data(Bytes::from_static(b"hello"), true)
        .unwrap();
    assert_eq!(soon(response).await.unwrap().status(), 200);
    assert_eq!(server.connections(), 1, "both go over one connection");
}

/// Answers with more than any client reads, and reports the reset of the stream.
async fn stream(mut respond: SendResponse<Bytes>, reset: mpsc::Sender<h2::Reason>) {
    let mut response = respond.send_response(Response::new(()), false).unwrap();
    send(&mut response, 1 << 30).await;
    let code = poll_fn(|cx| response.poll_reset(cx)).await;
    reset.send(code.unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_endpoint_is_told_at_once_that_nobody_takes_its_response() {
    let (reset, mut resets) = mpsc::channel(1);
    let server = Tcp::start(move |socket| {
        let reset = reset.clone();
        async move {
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((mut request, respond))) = connection.accept().await {
                let reset = reset.clone();
                tokio::spawn(async move {
                    while let Some(Ok(_)) = request.body_mut().data().await {}
                    stream(respond, reset).await;
                });
            }
        }
    })
    .await;
    let mesh = mesh_of(&server).await;
    let (mut client, _connection) = connect(&mesh).await;
    let request = Request::post("http://web/").body(()).unwrap();
    let (response, mut upload) = client.send_request(request, false).unwrap();
    upload
        .send_data(Bytes::from_static(b"hello"), true)
        .unwrap();
    let response = soon(response).await.unwrap();
    drop((response, upload));
    assert_eq!(soon(resets.recv()).await, Some(h2::Reason::CANCEL));
}

/// Answers at once, reads the upload, and reports the code of its reset.
async fn take(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    given_up: mpsc::Sender<Option<h2::Reason>>,
) {
    let mut body = request.into_body();
    let _response = respond.send_response(Response::new(()), false).unwrap();
    let code = loop {
        match body.data().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error.reason(),
            None => break None,
        }
    };
    given_up.send(code).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_its_client_gives_up_without_an_error_code_does_not_end_as_a_whole_one() {
    let (sender, mut given_up) = mpsc::channel(1);
    let server = Tcp::start(move |socket| {
        let sender = sender.clone();
        async move {
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(take(request, respond, sender.clone()));
            }
        }
    })
    .await;
    let mesh = mesh_of(&server).await;
    let (mut client, _connection) = connect(&mesh).await;
    let request = Request::post("http://web/").body(()).unwrap();
    let (response, mut upload) = client.send_request(request, false).unwrap();
    upload
        .send_data(Bytes::from_static(b"part"), false)
        .unwrap();
    let _response = soon(response).await.unwrap();
    upload.send_reset(h2::Reason::NO_ERROR);
    let code = soon(given_up.recv()).await.unwrap();
    assert_eq!(code, Some(h2::Reason::CANCEL));
}

async fn connect(mesh: &Mesh) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(mesh.proxy.outbound).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    (client, tokio::spawn(connection))
}

/// Sends more than the window of a stream, unless the request is for `/small`.
async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let is_small = request.uri().path() == "/small";
    let mut response = respond.send_response(Response::new(()), false).unwrap();
    send(&mut response, if is_small { 5 } else { 4 * WINDOW }).await;
    let _ = response.send_data(Bytes::new(), true);
}

#[tokio::test]
async fn responses_that_nobody_reads_do_not_hold_up_others() {
    let server = Tcp::start(|socket| async move {
        let mut connection = h2::server::handshake(socket).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(answer(request, respond));
        }
    })
    .await;
    let mesh = mesh_of(&server).await;
    let mut unread = Vec::new();
    // More stream windows than fit into the window of the connection.
    for _ in 0..20 {
        let (mut client, connection) = connect(&mesh).await;
        let request = Request::get("http://web/large").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let mut response = soon(response).await.unwrap();
        // Bytes for the whole window have arrived.
        let mut taken = 0;
        while taken < WINDOW {
            taken += soon(response.body_mut().data())
                .await
                .unwrap()
                .unwrap()
                .len();
        }
        unread.push((client, connection, response));
    }
    let (mut client, _connection) = connect(&mesh).await;
    let request = Request::get("http://web/small").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let mut body = soon(response).await.unwrap().into_body();
    assert_eq!(soon(body.data()).await.unwrap().unwrap(), ".....");
    assert_eq!(server.connections(), 2);
}
