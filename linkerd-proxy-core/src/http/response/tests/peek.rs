//! Reading the first frame ahead takes nothing from the reader of the body.

use super::*;
use std::future::poll_fn;

/// The response of an endpoint with this text after its first line, and an observer of it.
async fn response(answer: &str) -> (Response<ResponseBody>, Rc<Notes>) {
    let response = incoming(&format!("HTTP/1.1 200 OK\r\n{answer}")).await;
    let mut response = ResponseBody::of_endpoint(response, Box::new(NoLease), None);
    let notes = Rc::new(Notes::default());
    response.body_mut().observe(notes.clone(), Instant::now());
    (response, notes)
}

async fn code(response: &mut Response<ResponseBody>) -> Option<u8> {
    poll_fn(|cx| response.body_mut().poll_grpc_code(cx)).await
}

#[tokio::test]
async fn a_code_is_found_in_headers_and_in_trailers_and_both_stay() {
    let head = "transfer-encoding: chunked\r\ntrailer: grpc-status\r\n\r\n";
    for (answer, expected) in [
        (
            "grpc-status: 14\r\ncontent-length: 0\r\n\r\n".to_owned(),
            Some(14),
        ),
        (format!("{head}0\r\ngrpc-status: 8\r\n\r\n"), Some(8)),
        (format!("{head}0\r\n\r\n"), None),
        ("content-length: 0\r\n\r\n".to_owned(), None),
    ] {
        local(async {
            let (mut response, notes) = response(&answer).await;
            for _ in 0..2 {
                assert_eq!(code(&mut response).await, expected, "{answer}");
            }
            let status = response.headers().get("grpc-status").cloned();
            let body = response.into_body().collect().await.unwrap();
            let status = status.or_else(|| body.trailers()?.get("grpc-status").cloned());
            let status = status.map(|status| status.to_str().unwrap().parse().unwrap());
            assert_eq!(status, expected);
            assert_eq!(notes.0.borrow().last().unwrap(), "complete");
        })
        .await;
    }
}

#[tokio::test]
async fn data_that_was_looked_at_is_read_with_its_size_and_its_observers() {
    local(async {
        let (mut response, notes) = response("content-length: 5\r\n\r\nhello").await;
        assert_eq!(code(&mut response).await, None);
        assert!(notes.0.borrow().is_empty() && !response.body().is_end_stream());
        assert_eq!(response.body().size_hint().exact(), Some(5));
        let read = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&read[..], b"hello");
        assert_eq!(*notes.0.borrow(), ["200 OK: 5", "complete"]);
    })
    .await;
}

#[tokio::test]
async fn who_observes_a_response_that_is_discarded_sees_the_end_that_is_known() {
    for (answer, last) in [
        (
            "transfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n",
            "complete",
        ),
        ("content-length: 5\r\n\r\nhel", "dropped"),
    ] {
        local(async {
            let (mut response, notes) = response(answer).await;
            code(&mut response).await;
            response.into_body().discard();
            assert_eq!(notes.0.borrow().last().unwrap(), last);
        })
        .await;
    }
}
