//! Uploads that outlast their responses.

use super::*;

impl Served {
    /// Begins an upload, and receives its response.
    async fn upload(&mut self, field: &str) -> String {
        let head = "POST /early HTTP/1.1\r\ntransfer-encoding: chunked";
        self.send(&format!("{head}\r\n{field}\r\n1\r\na\r\n")).await;
        self.receive("/early").await
    }

    /// Waits for the end of the connection, and returns the end of the upload.
    async fn end(mut self) -> hyper::Result<Option<HeaderMap>> {
        assert_eq!(self.client.read(&mut [0; 1]).await.unwrap(), 0);
        self.serving.await.unwrap().unwrap();
        assert!(!self.connection.only_uploads());
        self.uploaded.take().expect("the upload has ended")
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_ends_soon_after_its_response_leaves_the_connection_open() {
    local(async {
        let mut served = Served::new();
        for _ in 0..3 {
            served.upload("").await;
            sleep(Duration::from_millis(500)).await;
            served.send("0\r\n\r\n").await;
            sleep(Duration::from_secs(5)).await;
            served.exchange("/next").await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn announced_trailers_reach_an_upload_whose_response_has_ended() {
    for next in ["", "GET /half"] {
        local(async {
            let mut served = Served::new();
            let answer = served.upload("trailer: x\r\n").await;
            assert!(answer.contains("connection: close"), "{answer}");
            served.send(&format!("0\r\nx: y\r\n\r\n{next}")).await;
            let trailers = served.end().await.unwrap();
            assert_eq!(trailers.unwrap()["x"], "y");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_that_were_not_announced_end_an_upload_soon_at_least() {
    for next in ["", "GET /half"] {
        local(async {
            let mut served = Served::new();
            served.upload("").await;
            let start = Instant::now();
            served.send(&format!("0\r\nx: y\r\n\r\n{next}")).await;
            served.end().await.unwrap_err();
            assert!(
                start.elapsed() < Duration::from_secs(15),
                "{next}: {:?}",
                start.elapsed()
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_upload_goes_on_after_its_response_and_leaves_the_connection_open() {
    local(async {
        let mut served = Served::new();
        served.upload("").await;
        for _ in 0..100 {
            sleep(Duration::from_millis(900)).await;
            served.send("1\r\na\r\n").await;
        }
        assert!(served.connection.only_uploads());
        served.send("0\r\n\r\n").await;
        served.exchange("/next").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_pauses_after_its_response_is_taken_to_its_end_and_is_the_last() {
    for (end, trailer) in [("0\r\n\r\n", None), ("0\r\nx: y\r\n\r\n", Some("y"))] {
        local(async {
            let mut served = Served::new();
            served.upload("").await;
            sleep(Duration::from_secs(60)).await;
            served.send("1\r\na\r\n").await;
            sleep(Duration::from_secs(60)).await;
            served.send(end).await;
            let trailers = served.end().await.unwrap().unwrap_or_default();
            let found = trailers.get("x").map(|value| value.to_str().unwrap());
            assert_eq!(found, trailer);
        })
        .await;
    }
}
