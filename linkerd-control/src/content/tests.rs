use super::*;
use crate::policy::Policy;
use tonic::Code;

fn addr(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn set(ports: impl IntoIterator<Item = u16>) -> EndpointSet {
    EndpointSet::new(ports.into_iter().map(addr))
}

/// The messages as text: `+port`, `-port`, `none` or `gone` for each.
fn told(old: Option<&EndpointSet>, new: &EndpointSet) -> Vec<String> {
    EndpointSet::messages(old, new)
        .into_iter()
        .flat_map(|message| match message.update {
            Some(update::Update::Add(set)) => set
                .addrs
                .iter()
                .filter_map(|a| a.addr.as_ref())
                .map(|a| format!("+{}", a.port))
                .collect(),
            Some(update::Update::Remove(set)) => {
                set.addrs.iter().map(|a| format!("-{}", a.port)).collect()
            }
            Some(update::Update::NoEndpoints(NoEndpoints { exists: true })) => vec!["none".into()],
            Some(update::Update::NoEndpoints(NoEndpoints { exists: false })) => vec!["gone".into()],
            None => vec!["nothing".into()],
        })
        .collect()
}

#[test]
fn a_new_stream_is_told_the_whole_state() {
    assert_eq!(told(None, &set([1, 2])), ["+1", "+2"]);
    assert_eq!(told(None, &set([])), ["none"]);
    assert_eq!(told(None, &EndpointSet::none(true)), ["none"]);
    assert_eq!(told(None, &EndpointSet::none(false)), ["gone"]);
}

#[test]
fn endpoints_that_are_not_known_yet_are_no_message_until_they_are() {
    let (unknown, nothing) = (EndpointSet::unresolved(), [""; 0]);
    assert_eq!(told(None, &unknown), nothing);
    assert_eq!(told(Some(&unknown), &unknown), nothing);
    assert_eq!(told(Some(&unknown), &set([1])), ["+1"]);
    assert_eq!(told(Some(&unknown), &set([])), ["none"]);
    // Those of the file before it was changed.
    assert_eq!(told(Some(&set([1])), &unknown), ["none"]);
}

#[test]
fn an_open_stream_is_told_the_difference() {
    let nothing: [&str; 0] = [];
    assert_eq!(told(Some(&set([1, 2])), &set([1, 2])), nothing);
    assert_eq!(told(Some(&set([1, 2])), &set([2, 3])), ["+3", "-1"]);
    assert_eq!(told(Some(&set([1, 2])), &set([])), ["-1", "-2"]);
    assert_eq!(told(Some(&set([1])), &EndpointSet::none(false)), ["gone"]);
    assert_eq!(told(Some(&EndpointSet::none(true)), &set([1])), ["+1"]);
    assert_eq!(told(Some(&EndpointSet::none(false)), &set([])), ["none"]);
}

#[test]
fn changed_metadata_is_sent_again() {
    let old = set([1, 2]);
    let heavier = old.clone().with([Endpoint::new(addr(2)).weight(7)]);
    assert_eq!(told(Some(&old), &heavier), ["+2"]);
    let labelled = old.clone().labels([("tier", "front")]);
    assert_eq!(told(Some(&old), &labelled), ["+1", "+2"]);
    assert_eq!(
        told(Some(&labelled), &labelled.clone().without([addr(1)])),
        ["-1"]
    );
}

#[test]
fn a_difference_carries_the_labels_of_the_set() {
    let old = set([1]).labels([("tier", "front")]);
    let messages = EndpointSet::messages(Some(&old), &old.clone().with([addr(2)]));
    let Some(update::Update::Add(add)) = &messages[0].update else {
        panic!("not an Add: {messages:?}");
    };
    assert_eq!(add.metric_labels["tier"], "front");
}

#[test]
fn profiles_and_policies_are_sent_whole_and_only_if_they_changed() {
    let old = Policy::balance("web", 80).build();
    let new = Policy::balance("web", 80).http2().build();
    assert_eq!(OutboundPolicy::messages(None, &old).len(), 1);
    assert_eq!(OutboundPolicy::messages(Some(&old), &old).len(), 0);
    assert_eq!(OutboundPolicy::messages(Some(&old), &new), [new]);
}

#[test]
fn unknown_targets_are_answered_as_by_a_cluster() {
    assert_eq!(
        EndpointSet::unknown("web:80", &[]).ok(),
        Some(Some(EndpointSet::none(false)))
    );

    let unknown = |target| DestinationProfile::unknown(target, &[]);
    assert_eq!(
        unknown("10.0.0.1:80").ok(),
        Some(Some(DestinationProfile::default()))
    );
    let name = unknown("web.ns.svc.cluster.local:80").expect("a service's name");
    assert_eq!(
        name.unwrap().fully_qualified_name,
        "web.ns.svc.cluster.local"
    );
    let other = unknown("example.com:80").expect_err("not a service's name");
    assert_eq!(other.code(), Code::InvalidArgument);

    let policy = OutboundPolicy::unknown("10.0.0.1:80", &[]).expect_err("no policy");
    assert_eq!(policy.code(), Code::NotFound);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_that_exist() {
    let told = |target, names: &[String]| {
        let status = OutboundPolicy::unknown(target, names).expect_err("unknown");
        status.message().to_owned()
    };
    assert_eq!(told("wob:80", &[]), "no service at wob:80");
    let names = ["shop.mall:80", "web:80"].map(str::to_owned);
    assert_eq!(
        told("wob:80", &names),
        "no service at wob:80; the services: web:80, shop.mall:80"
    );
    let many: Vec<_> = (0..40).map(|n| format!("service-{n}:80")).collect();
    let message = told("service-7:81", &many);
    assert!(
        message.contains("; the nearest of 40 services: service-7:80, "),
        "{message}"
    );
    assert_eq!(message.matches(", ").count(), 9, "{message}");
}
