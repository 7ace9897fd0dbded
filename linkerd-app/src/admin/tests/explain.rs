//! `/explain`: its parameters, and its statuses.

use super::*;
use crate::explain::{ExplainAnswer, Explainer};
use http::Version;

/// Answers with the query; the target `nobody:80` is not known.
pub(super) fn explainer() -> Explainer {
    Box::new(|query| {
        let text = format!(
            "{} {} for {} {:?}",
            query.method, query.url, query.target, query.headers
        );
        let version = query.version.unwrap_or(Version::HTTP_11);
        Box::pin(async move {
            match &*query.target.to_string() {
                "nobody:80" => ExplainAnswer::UnknownTarget(json!({ "error": "not in use" })),
                _ => ExplainAnswer::Explained(json!([text, format!("{version:?}")])),
            }
        })
    })
}

#[tokio::test]
async fn a_request_is_explained_by_parameters_and_by_json() {
    with(admin(), |addr| async move {
        let parameters = "method=POST&url=http%3A%2F%2Fweb%2Fa%3Fb%3D1&header=x-a:1&version=2";
        let by_parameters = get(addr, &format!("/explain?{parameters}")).await;
        assert_eq!(
            (by_parameters.status, by_parameters.kind()),
            (200, Some("application/json"))
        );
        let expected = json!([
            "POST http://web/a?b=1 for web:80 {\"x-a\": \"1\"}",
            "HTTP/2.0"
        ]);
        assert_eq!(by_parameters.text(), format!("{expected:#}\n"));
        let body = r#"{"method": "POST", "url": "http://web/a?b=1", "headers": {"x-a": "1"},
            "version": 2}"#;
        let by_json = request(addr, "POST /explain", body).await;
        assert_eq!(by_json.text(), by_parameters.text());
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_explained_says_why() {
    with(admin(), |addr| async move {
        for (path, status, part) in [
            ("/explain", 400, "url: it is missing; add url="),
            ("/explain?port=80", 400, "client:"),
            ("/explain?port=80&client=10.0.0.7", 200, "inbound"),
            ("/explain?url=http://web/&methd=GET", 400, "methd"),
            ("/explain?url=http://nobody/", 404, "not in use"),
        ] {
            let answer = get(addr, path).await;
            assert_eq!(
                (answer.status, answer.kind()),
                (status, Some("application/json"))
            );
            assert!(answer.text().contains(part), "{path}: {}", answer.text());
        }
        assert_eq!(request(addr, "PUT /explain", "").await.status, 405);
        let large = vec![b' '; request::MAX_BODY + 1];
        let large = String::from_utf8(large).unwrap();
        assert_eq!(request(addr, "POST /explain", &large).await.status, 413);
        let broken = request(addr, "POST /explain", "{").await;
        assert_eq!(broken.status, 400);
        assert!(broken.text().contains("for example"), "{}", broken.text());
    })
    .await;
    let head = "GET /explain?url=http://web/";
    assert_eq!(from("10.0.0.9", admin(), head).await.status, 403);
}
