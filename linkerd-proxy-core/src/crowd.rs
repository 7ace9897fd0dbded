//! A bounded set whose newcomers are never refused: one of the crowd makes room.
//!
//! A bound that refuses the newest lets whoever came first shut out all others: 1,024 connections that begin a handshake and stop
//! are enough. So the member goes that has been there for the longest, of the source that has the most members: an attacker
//! displaces its own connections, and a client of another address none but when it is the most numerous itself.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    rc::Rc,
};
use tokio::sync::Notify;

/// The members of a crowd, on one thread.
///
/// - **Bounds**: the number of members.
#[derive(Debug)]
pub struct Crowd {
    limit: usize,
    members: RefCell<Members>,
    displaced: Cell<u64>,
}

/// The members, and the choice of the one that makes room.
#[derive(Debug, Default)]
struct Members {
    next: u64,
    /// By age; the oldest first.
    all: BTreeMap<u64, Member>,
    of_sources: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Member {
    source: IpAddr,
    displaced: Rc<Notify>,
}

/// A place in a crowd, until it is dropped.
#[derive(Debug)]
pub struct Place<'a> {
    crowd: &'a Crowd,
    number: u64,
    displaced: Rc<Notify>,
}

impl Crowd {
    /// A crowd without members, and with `limit` of them at most.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            members: RefCell::default(),
            displaced: Cell::new(0),
        }
    }

    /// Takes a place for a client of this address. If there is none, a member is displaced.
    pub fn enter(&self, source: IpAddr) -> Place<'_> {
        let mut members = self.members.borrow_mut();
        let displaced = Rc::<Notify>::default();
        let number = members.add(Member {
            source: source.to_canonical(),
            displaced: displaced.clone(),
        });
        if members.all.len() > self.limit
            && let Some(member) = members.remove_one_of_most()
        {
            member.displaced.notify_one();
            self.displaced.set(self.displaced.get() + 1);
        }
        Place {
            crowd: self,
            number,
            displaced,
        }
    }

    /// The most members.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of members, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let members = self.members.borrow();
        serde_json::json!({
            "open": members.all.len(),
            "limit": self.limit,
            "sources": members.of_sources.len(),
            "displaced": self.displaced.get(),
        })
    }
}

impl Place<'_> {
    /// Waits until others need the place. Cancel safe.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.crowd.members.borrow_mut().remove(self.number);
    }
}

impl Members {
    fn add(&mut self, member: Member) -> u64 {
        let number = self.next;
        self.next += 1;
        *self.of_sources.entry(member.source).or_default() += 1;
        self.all.insert(number, member);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Member> {
        let member = self.all.remove(&number)?;
        if let Some(count) = self.of_sources.get_mut(&member.source) {
            *count -= 1;
            if *count == 0 {
                self.of_sources.remove(&member.source);
            }
        }
        Some(member)
    }

    /// Removes the oldest member of a source with the most members; of several such sources, the oldest member of all.
    fn remove_one_of_most(&mut self) -> Option<Member> {
        let most = *self.of_sources.values().max()?;
        let is_of_most = |member: &Member| self.of_sources.get(&member.source) == Some(&most);
        let mut oldest = self.all.iter().filter(|(_, member)| is_of_most(member));
        let number = oldest.next().map(|(number, _)| *number)?;
        self.remove(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn source(number: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, number).into()
    }

    fn is_displaced(place: &Place<'_>) -> bool {
        place.displaced().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_of_the_most_numerous_source_makes_room() {
        let crowd = Crowd::new(3);
        let innocent = crowd.enter(source(1));
        let attacker: Vec<_> = (0..10).map(|_| crowd.enter(source(2))).collect();
        let displaced: Vec<_> = attacker.iter().map(is_displaced).collect();
        assert_eq!(displaced[..8], [true; 8]);
        assert_eq!(displaced[8..], [false; 2]);
        assert!(!is_displaced(&innocent));
        assert_eq!(crowd.inspect()["displaced"], 8);
        drop(attacker);
        assert_eq!(crowd.inspect()["open"], 1);
    }

    #[test]
    fn of_sources_with_one_member_each_the_oldest_makes_room() {
        let crowd = Crowd::new(2);
        let places: Vec<_> = (0..3).map(|number| crowd.enter(source(number))).collect();
        let displaced: Vec<_> = places.iter().map(is_displaced).collect();
        assert_eq!(displaced, [true, false, false]);
    }

    #[test]
    fn an_address_is_one_source_in_both_families() {
        let crowd = Crowd::new(3);
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().into();
        let _places = [crowd.enter(source(1)), crowd.enter(mapped)];
        assert_eq!(crowd.inspect()["sources"], 1);
    }

    proptest! {
        #[test]
        fn a_source_within_its_share_is_never_displaced(
            entries in proptest::collection::vec(0..4_u8, 1..200),
        ) {
            // Four sources have a share of 5 of 20 places each.
            let crowd = Crowd::new(20);
            let mut places: Vec<(u8, Place<'_>)> = Vec::new();
            for number in entries {
                places.push((number, crowd.enter(source(number))));
                prop_assert!(crowd.members.borrow().all.len() <= 20);
                for of in 0..4 {
                    let own = places.iter().filter(|(number, _)| *number == of);
                    let left = own.filter(|(_, place)| !is_displaced_peek(place)).count();
                    let entered = places.iter().filter(|(number, _)| *number == of).count();
                    prop_assert!(left >= entered.min(5), "source {of} has {left} of {entered}");
                }
            }
        }
    }

    fn is_displaced_peek(place: &Place<'_>) -> bool {
        !place.crowd.members.borrow().all.contains_key(&place.number)
    }
}
