//! Requests from other sites' pages, and secrets.

use super::*;

#[tokio::test]
async fn a_page_of_another_site_cannot_use_what_is_for_this_host() {
    let (tx, _rx) = mpsc::channel(1);
    let enabled = || AdminContext {
        shutdown: Some(tx.clone()),
        ..admin()
    };
    for (foreign, named) in [
        ("\r\nhost: evil.example", "evil.example"),
        ("\r\norigin: http://evil.example", "evil.example"),
        ("\r\nsec-fetch-site: cross-site", "another site"),
    ] {
        with(enabled(), |addr| async move {
            for path in [
                "GET /state",
                "GET /tap",
                "GET /env.json",
                "PUT /proxy-log-level",
                "POST /shutdown",
            ] {
                let reply = request(addr, &format!("{path}{foreign}"), "").await;
                assert_eq!((reply.status, reply.kind()), (403, Some("text/plain")));
                assert!(reply.text().contains(named), "{path}: {}", reply.text());
            }
            for path in ["/live", "/ready", "/metrics", "/"] {
                let reply = request(addr, &format!("GET {path}{foreign}"), "").await;
                assert_eq!(reply.status, 200, "{path} is for everybody");
            }
        })
        .await;
    }
    with(admin(), |addr| async move {
        let own = "GET /state\r\norigin: http://localhost\r\nsec-fetch-site: same-origin";
        assert_eq!(request(addr, own, "").await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn the_environment_hides_secrets() {
    let env = AdminContext {
        env: Env::from_iter([
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("db_password", "hunter2"),
            ("GITHUB_TOKEN", "hunter2"),
            ("API_KEYS", "hunter2"),
            ("PGPASSWORD", "hunter2"),
            ("STRIPE_APIKEY", "hunter2"),
            ("EMPTY_TOKEN", ""),
            ("IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
            ("OTHER_TOKEN_FILE", "hunter2"),
            ("KEEP_ALIVE", "10s"),
            ("MONKEY", "1"),
        ]),
        ..admin()
    };
    with(env, |addr| async move {
        let expected = json!({
            "AWS_SECRET_ACCESS_KEY": "***",
            "db_password": "***",
            "GITHUB_TOKEN": "***",
            "API_KEYS": "***",
            "PGPASSWORD": "***",
            "STRIPE_APIKEY": "***",
            "EMPTY_TOKEN": "",
            "IDENTITY_TOKEN_FILE": "/var/run/secrets/token",
            "OTHER_TOKEN_FILE": "***",
            "KEEP_ALIVE": "10s",
            "MONKEY": "1",
        });
        assert_eq!(get(addr, "/env.json").await.json(), expected);
        let one = get(addr, "/env.json?GITHUB_TOKEN").await;
        assert_eq!(one.json(), json!({ "GITHUB_TOKEN": "***" }));
    })
    .await;
}
