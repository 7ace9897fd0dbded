use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn addr(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 8080).into()
}

fn endpoint(last: u8, weight: u32) -> Endpoint {
    Endpoint {
        weight,
        ..Endpoint::new(addr(last))
    }
}

fn add(endpoints: &[(u8, u32)]) -> EndpointSetChange {
    let endpoints = endpoints.iter();
    EndpointSetChange::Add(endpoints.map(|(n, weight)| endpoint(*n, *weight)).collect())
}

fn remove(lasts: &[u8]) -> EndpointSetChange {
    EndpointSetChange::Remove(lasts.iter().map(|n| addr(*n)).collect())
}

fn lasts(table: &EndpointTable) -> Vec<u8> {
    let mut lasts: Vec<_> = table.endpoints.keys().map(last).collect();
    lasts.sort_unstable();
    lasts
}

fn last(addr: &SocketAddr) -> u8 {
    match addr {
        SocketAddr::V4(addr) => addr.ip().octets()[3],
        SocketAddr::V6(addr) => addr.ip().octets()[15],
    }
}

#[test]
fn the_first_add_of_a_stream_replaces_everything() {
    let mut table = EndpointTable::new(10);
    table.apply(add(&[(1, 1), (2, 1)]));
    table.apply(add(&[(3, 1)]));
    assert_eq!(lasts(&table), [1, 2, 3]);
    let kept = table.endpoints[&addr(2)].clone();
    let changed = table.endpoints[&addr(3)].clone();

    table.reopened();
    let applied = table.apply(add(&[(2, 1), (3, 9)]));
    assert!(applied.changed);
    assert_eq!(lasts(&table), [2, 3]);
    assert!(Arc::ptr_eq(&kept, &table.endpoints[&addr(2)]));
    assert!(!Arc::ptr_eq(&changed, &table.endpoints[&addr(3)]));

    table.reopened();
    assert!(
        !table.apply(add(&[(3, 9), (2, 1)])).changed,
        "only the order differs"
    );
}

#[test]
fn a_removal_before_anything_else_is_ignored() {
    let mut table = EndpointTable::new(10);
    table.apply(add(&[(1, 1), (2, 1)]));
    table.reopened();
    assert_eq!(table.apply(remove(&[1])), Applied::default());
    assert_eq!(lasts(&table), [1, 2]);
    table.apply(add(&[(2, 1)]));
    assert_eq!(lasts(&table), [2]);
    assert!(table.apply(remove(&[2])).changed);
    assert!(!table.apply(remove(&[2])).changed);
}

#[test]
fn no_endpoints_resets() {
    let mut table = EndpointTable::new(10);
    table.apply(add(&[(1, 1)]));
    let snapshot = |table: &EndpointTable| table.snapshot(None, 1, Instant::now());
    assert_eq!(snapshot(&table).exists, Some(true));
    assert!(
        table
            .apply(EndpointSetChange::Clear { exists: false })
            .changed
    );
    assert!(snapshot(&table).is_empty());
    assert_eq!(snapshot(&table).exists, Some(false));
    assert!(
        !table
            .apply(EndpointSetChange::Clear { exists: false })
            .changed
    );
    assert!(
        table
            .apply(EndpointSetChange::Clear { exists: true })
            .changed
    );
}

#[test]
fn the_bound_holds() {
    let mut table = EndpointTable::new(2);
    assert_eq!(table.apply(add(&[(1, 1), (2, 1), (3, 1)])).beyond_limit, 1);
    assert_eq!(lasts(&table), [1, 2]);
    let applied = table.apply(add(&[(4, 1), (1, 5)]));
    assert_eq!(applied.beyond_limit, 1);
    assert!(applied.changed, "an endpoint of the table may change");
    table.reopened();
    assert_eq!(table.apply(add(&[(5, 1), (6, 1)])).beyond_limit, 0);
    assert_eq!(lasts(&table), [5, 6]);
}

#[test]
fn all_weights_zero_are_equal_weights() {
    let mut table = EndpointTable::new(10);
    table.apply(add(&[(1, 0), (2, 0)]));
    let first = table.snapshot(None, 1, Instant::now());
    assert!(
        first
            .endpoints
            .values()
            .all(|endpoint| endpoint.weight == 1)
    );
    table.apply(add(&[(3, 0)]));
    let second = table.snapshot(Some(&first), 2, Instant::now());
    assert!(Arc::ptr_eq(
        &first.endpoints[&addr(1)],
        &second.endpoints[&addr(1)]
    ));
    table.apply(add(&[(3, 7)]));
    let third = table.snapshot(Some(&second), 3, Instant::now());
    assert_eq!(third.endpoints[&addr(1)].weight, 0);
}

#[derive(Clone, Debug)]
enum Op {
    Reopen,
    Add(Vec<(u8, u32)>),
    Remove(Vec<u8>),
    Clear(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Reopen),
        proptest::collection::vec((0u8..8, 0u32..3), 1..6).prop_map(Op::Add),
        proptest::collection::vec(0u8..8, 1..4).prop_map(Op::Remove),
        any::<bool>().prop_map(Op::Clear),
    ]
}

proptest! {
    /// Operations applied one by one lead to the same endpoints as in the simplest possible model.
    #[test]
    fn updates_add_up(ops in proptest::collection::vec(op(), 0..40)) {
        let mut table = EndpointTable::new(100);
        let mut model: BTreeMap<u8, u32> = BTreeMap::new();
        let mut fresh = true;
        let mut before: Option<EndpointSet> = None;
        for op in ops {
            let applied = match op {
                Op::Reopen => {
                    table.reopened();
                    fresh = true;
                    continue;
                }
                Op::Add(endpoints) => {
                    if fresh {
                        model.clear();
                    }
                    fresh = false;
                    model.extend(endpoints.iter().copied());
                    table.apply(add(&endpoints))
                }
                Op::Remove(lasts) => {
                    if !fresh {
                        model.retain(|last, _| !lasts.contains(last));
                    }
                    table.apply(remove(&lasts))
                }
                Op::Clear(exists) => {
                    fresh = false;
                    model.clear();
                    table.apply(EndpointSetChange::Clear { exists })
                }
            };
            let is: BTreeMap<_, _> = table
                .endpoints
                .iter()
                .map(|(addr, endpoint)| (last(addr), endpoint.weight))
                .collect();
            prop_assert_eq!(&is, &model);
            let now = table.snapshot(before.as_ref(), 0, Instant::now());
            let weighted = now.endpoints.values().any(|endpoint| endpoint.weight > 0);
            prop_assert!(now.is_empty() || weighted);
            if let Some(before) = &before {
                let same = before.endpoints == now.endpoints && before.exists == now.exists;
                prop_assert!(applied.changed || same, "a change must be reported");
                for (addr, endpoint) in now.endpoints.iter() {
                    if let Some(was) = before.endpoints.get(addr).filter(|was| *was == endpoint) {
                        prop_assert!(Arc::ptr_eq(was, endpoint), "an equal endpoint keeps its Arc");
                    }
                }
            }
            before = Some(now);
        }
    }
}
