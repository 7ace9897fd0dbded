//! A bounded set whose newcomers are never refused: one of the crowd makes room.
//!
//! A bound that refuses the newest lets whoever came first shut out all others: 1,024 connections that begin a handshake and stop
//! are enough. So the member goes that has been there for the longest, of the source that has the most members: an attacker
//! displaces its own connections, and a client of another address none but when it is the most numerous itself.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    ops::Deref,
    rc::Rc,
};
use tokio::sync::Notify;

/// The members of a crowd, on one thread.
///
/// - **Bounds**: the number of members, and the bytes that they hold together.
#[derive(Debug)]
pub struct Crowd {
    limit: usize,
    max_bytes: usize,
    members: RefCell<Members>,
    displaced: Cell<u64>,
}

/// The members, and the choice of the one that makes room.
#[derive(Debug, Default)]
struct Members {
    next: u64,
    /// By age; the oldest first.
    all: BTreeMap<u64, Member>,
    of_sources: HashMap<IpAddr, Held>,
    bytes: usize,
}

#[derive(Debug)]
struct Member {
    source: IpAddr,
    bytes: usize,
    displaced: Rc<Notify>,
}

/// The places and bytes of a source.
#[derive(Debug, Default)]
struct Held {
    places: usize,
    bytes: usize,
}

/// A place in a crowd, until it is dropped.
#[derive(Debug)]
pub struct Place<C: Deref<Target = Crowd>> {
    crowd: C,
    number: u64,
    displaced: Rc<Notify>,
}

/// The source to which a client of this address counts: an IPv4 address, or an IPv6 network of 64 bits, of which one host has all
/// addresses.
pub fn source(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => {
            let network = ip.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
        ip => ip,
    }
}

impl Crowd {
    /// A crowd without members, and with `limit` of them at most.
    pub fn new(limit: usize) -> Self {
        Self::with_bytes(limit, usize::MAX)
    }

    /// A crowd whose members also hold at most `max_bytes` together.
    pub fn with_bytes(limit: usize, max_bytes: usize) -> Self {
        Self {
            limit,
            max_bytes,
            members: RefCell::default(),
            displaced: Cell::new(0),
        }
    }

    /// Takes a place for a client of this address. If there is none, a member is displaced.
    pub fn enter(&self, client: IpAddr) -> Place<&Self> {
        let (number, displaced) = self.add(client);
        Place {
            crowd: self,
            number,
            displaced,
        }
    }

    /// Takes a place as [`enter`](Self::enter) does, which shares the crowd.
    pub fn enter_shared(self: &Rc<Self>, client: IpAddr) -> Place<Rc<Self>> {
        let (number, displaced) = self.add(client);
        Place {
            crowd: self.clone(),
            number,
            displaced,
        }
    }

    /// Whether a newcomer displaces a member.
    pub fn is_full(&self) -> bool {
        self.members.borrow().all.len() >= self.limit
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.members.borrow().all.len()
    }

    /// The most members.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes that the members hold.
    pub fn bytes(&self) -> usize {
        self.members.borrow().bytes
    }

    /// The most bytes that the members may hold.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The members that were displaced so far.
    pub fn displaced(&self) -> u64 {
        self.displaced.get()
    }

    /// The number of members, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "open": self.count(),
            "limit": self.limit,
            "sources": self.members.borrow().of_sources.len(),
            "displaced": self.displaced.get(),
        })
    }

    fn add(&self, client: IpAddr) -> (u64, Rc<Notify>) {
        let displaced = Rc::<Notify>::default();
        let number = self.members.borrow_mut().add(Member {
            source: source(client),
            bytes: 0,
            displaced: displaced.clone(),
        });
        self.make_room();
        (number, displaced)
    }

    /// Displaces members until the others are within the bounds.
    fn make_room(&self) {
        let mut members = self.members.borrow_mut();
        loop {
            let displaced = match () {
                () if members.all.len() > self.limit => members.remove_of_most(|held| held.places),
                () if members.bytes > self.max_bytes => members.remove_of_most(|held| held.bytes),
                () => return,
            };
            let Some(member) = displaced else { return };
            member.displaced.notify_one();
            self.displaced.set(self.displaced.get() + 1);
        }
    }
}

impl<C: Deref<Target = Crowd>> Place<C> {
    /// Waits until others need the place, for each of those that wait. Cancel safe.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
        self.displaced.notify_one();
    }

    /// Whether others have taken the place.
    pub fn is_displaced(&self) -> bool {
        !self.crowd.members.borrow().all.contains_key(&self.number)
    }

    /// Notes the number of bytes that the member holds.
    pub fn holds(&self, bytes: usize) {
        self.crowd
            .members
            .borrow_mut()
            .set_bytes(self.number, bytes);
        self.crowd.make_room();
    }
}

impl<C: Deref<Target = Crowd>> Drop for Place<C> {
    fn drop(&mut self) {
        self.crowd.members.borrow_mut().remove(self.number);
    }
}

impl Members {
    fn add(&mut self, member: Member) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of_sources.entry(member.source).or_default().places += 1;
        self.all.insert(number, member);
        number
    }

    fn set_bytes(&mut self, number: u64, bytes: usize) {
        let Some(member) = self.all.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut member.bytes, bytes);
        self.bytes = self.bytes - before + bytes;
        if let Some(held) = self.of_sources.get_mut(&member.source) {
            held.bytes = held.bytes - before + bytes;
        }
    }

    fn remove(&mut self, number: u64) -> Option<Member> {
        let member = self.all.remove(&number)?;
        self.bytes -= member.bytes;
        if let Some(held) = self.of_sources.get_mut(&member.source) {
            held.places -= 1;
            held.bytes -= member.bytes;
            if held.places == 0 {
                self.of_sources.remove(&member.source);
            }
        }
        Some(member)
    }

    /// Removes the oldest member of a source that holds the most; of several such sources, the oldest member of all.
    fn remove_of_most(&mut self, held: impl Fn(&Held) -> usize) -> Option<Member> {
        let most = self.of_sources.values().map(&held).max()?;
        let is_of_most = |member: &Member| {
            let of_source = self.of_sources.get(&member.source);
            of_source.map(&held) == Some(most)
        };
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

    fn addr(number: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, number).into()
    }

    fn is_displaced(place: &Place<&Crowd>) -> bool {
        let notified = place.displaced().now_or_never().is_some();
        assert_eq!(notified, place.is_displaced());
        notified
    }

    #[test]
    fn the_oldest_of_the_most_numerous_source_makes_room() {
        let crowd = Crowd::new(3);
        let innocent = crowd.enter(addr(1));
        let attacker: Vec<_> = (0..10).map(|_| crowd.enter(addr(2))).collect();
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
        let places: Vec<_> = (0..3).map(|number| crowd.enter(addr(number))).collect();
        let displaced: Vec<_> = places.iter().map(is_displaced).collect();
        assert_eq!(displaced, [true, false, false]);
    }

    #[test]
    fn the_source_with_the_most_bytes_makes_room_for_more() {
        let crowd = Crowd::with_bytes(10, 100);
        let innocent = crowd.enter(addr(1));
        innocent.holds(40);
        let attacker: Vec<_> = (0..3).map(|_| crowd.enter(addr(2))).collect();
        for place in &attacker {
            place.holds(30);
        }
        let displaced: Vec<_> = attacker.iter().map(is_displaced).collect();
        assert_eq!(
            (displaced, is_displaced(&innocent)),
            (vec![true, false, false], false)
        );
        assert_eq!(crowd.bytes(), 100);
        innocent.holds(101);
        assert!(is_displaced(&innocent));
        drop((attacker, innocent));
        assert_eq!((crowd.bytes(), crowd.count()), (0, 0));
    }

    #[test]
    fn all_that_wait_for_a_displacement_learn_of_it() {
        let crowd = Rc::new(Crowd::new(1));
        let place = crowd.enter_shared(addr(1));
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(place.displaced())).collect();
        assert!(
            waiting
                .iter_mut()
                .all(|waiting| waiting.now_or_never().is_none())
        );
        let _newcomer = crowd.enter(addr(1));
        assert!(
            waiting
                .iter_mut()
                .all(|waiting| waiting.now_or_never().is_some())
        );
    }

    #[test]
    fn an_address_is_one_source_in_both_families_and_a_network_of_64_bits_one() {
        let of = |client: &str| source(client.parse().unwrap());
        assert_eq!(of("::ffff:10.0.0.1"), addr(1));
        assert_eq!(of("fd00::1:2:3:4"), of("fd00:0:0:0:ffff::"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    proptest! {
        #[test]
        fn a_source_within_its_share_is_never_displaced(
            entries in proptest::collection::vec(0..4_u8, 1..200),
        ) {
            // Four sources have a share of 5 of 20 places each.
            let crowd = Crowd::new(20);
            let mut places: Vec<(u8, Place<&Crowd>)> = Vec::new();
            for number in entries {
                places.push((number, crowd.enter(addr(number))));
                prop_assert!(crowd.members.borrow().all.len() <= 20);
                for of in 0..4 {
                    let own = places.iter().filter(|(number, _)| *number == of);
                    let left = own.filter(|(_, place)| !place.is_displaced()).count();
                    let entered = places.iter().filter(|(number, _)| *number == of).count();
                    prop_assert!(left >= entered.min(5), "source {of} has {left} of {entered}");
                }
            }
        }
    }
}
