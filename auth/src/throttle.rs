//! Slows down repeated failed logins.
//!
//! Owns the count of failures per peer and user and the delay that follows from
//! it. Pure: time comes in as a value, nothing waits here. Never locks anybody
//! out for good, and never knows whether a user exists, so that it treats
//! unknown ones alike.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::principal::NAME_BYTES_MAX;

/// How failed logins are slowed down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleConfig {
    /// Failures in a row that cost nothing.
    pub free_failures: u32,
    /// Delay after the first failure beyond those; it doubles with each more.
    pub delay_min: Duration,
    /// Longest delay.
    pub delay_max: Duration,
    /// Time after the last failure when it is forgotten.
    pub forget_after: Duration,
    /// Most keys remembered; beyond it the one that failed longest ago goes.
    pub keys_max: usize,
}

impl Default for ThrottleConfig {
    /// 3 free failures, 0.1 s to 10 s, forgotten after 15 minutes, 100,000 keys
    /// (some 30 MB).
    fn default() -> Self {
        Self {
            free_failures: 3,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
            forget_after: Duration::from_secs(15 * 60),
            keys_max: 100_000,
        }
    }
}

/// Who is slowed down: a peer trying one user.
///
/// The peer is its IPv4 address or the /64 network of its IPv6 address, within
/// which one host picks addresses at will; a local socket has no address. The
/// user is what the client claims, cut to [`NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThrottleKey {
    peer: Option<IpAddr>,
    user: String,
}

impl ThrottleKey {
    /// Returns the key of `peer` (`None` on a local socket) trying `user`.
    pub fn new(peer: Option<IpAddr>, user: &str) -> Self {
        Self { peer: peer.map(network), user: user[..user.floor_char_boundary(NAME_BYTES_MAX)].to_owned() }
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
    }
}

/// Whether a login attempt may be looked at now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// Refuse, or answer only after this time.
    Wait(Duration),
}

/// Failures per key.
///
/// `now` is a time since any fixed moment, from a clock that does not go back.
/// Attempts that run at the same time are each checked before any has failed:
/// their number is bounded by the connections that may be logging in.
#[derive(Debug)]
pub struct Throttle {
    config: ThrottleConfig,
    failures: HashMap<ThrottleKey, Failures>,
    /// The same keys, oldest failure first.
    by_age: BTreeMap<Stamp, ThrottleKey>,
    failed_total: u64,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    stamp: Stamp,
}

/// Orders failures by time, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    at: Duration,
    number: u64,
}

impl Throttle {
    /// Returns a throttle that remembers nothing yet.
    pub fn new(config: ThrottleConfig) -> Self {
        Self { config, failures: HashMap::new(), by_age: BTreeMap::new(), failed_total: 0 }
    }

    /// Says whether an attempt may go on at `now`.
    pub fn check(&self, key: &ThrottleKey, now: Duration) -> Verdict {
        let Some(failures) = self.failures.get(key) else {
            return Verdict::Proceed;
        };
        let since = now.saturating_sub(failures.stamp.at);
        let left = self.delay(failures.count).saturating_sub(since);
        if left.is_zero() || since >= self.config.forget_after {
            return Verdict::Proceed;
        }
        Verdict::Wait(left)
    }

    /// Records a failed attempt.
    pub fn failed(&mut self, key: &ThrottleKey, now: Duration) {
        self.forget_old(now);
        let count = self.remove(key).unwrap_or(0).saturating_add(1);
        self.failed_total += 1;
        let stamp = Stamp { at: now, number: self.failed_total };
        self.failures.insert(key.clone(), Failures { count, stamp });
        self.by_age.insert(stamp, key.clone());
        while self.failures.len() > self.config.keys_max {
            self.forget_oldest();
        }
    }

    /// Records a successful attempt, which clears the key.
    pub fn succeeded(&mut self, key: &ThrottleKey) {
        self.remove(key);
    }

    /// Returns how many keys are remembered.
    pub fn len(&self) -> usize {
        self.failures.len()
    }

    /// Says whether no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    fn delay(&self, count: u32) -> Duration {
        let slowed = count.saturating_sub(self.config.free_failures);
        let Some(doublings) = slowed.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.config.delay_min.saturating_mul(factor).min(self.config.delay_max)
    }

    fn remove(&mut self, key: &ThrottleKey) -> Option<u32> {
        let failures = self.failures.remove(key)?;
        self.by_age.remove(&failures.stamp);
        Some(failures.count)
    }

    fn forget_old(&mut self, now: Duration) {
        while let Some((stamp, _)) = self.by_age.first_key_value() {
            if now.saturating_sub(stamp.at) < self.config.forget_after {
                return;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.by_age.pop_first() {
            self.failures.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(peer: &str, user: &str) -> ThrottleKey {
        ThrottleKey::new(Some(peer.parse().unwrap()), user)
    }

    fn small(keys_max: usize) -> Throttle {
        Throttle::new(ThrottleConfig { keys_max, ..ThrottleConfig::default() })
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_delay_doubles_after_the_free_failures_up_to_its_limit() {
        let ann = key("10.0.0.1", "ann");
        let mut throttle = small(10);
        let now = millis(5_000);
        assert_eq!(throttle.check(&ann, now), Verdict::Proceed);
        let expected = [0, 0, 0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
        for delay in expected {
            throttle.failed(&ann, now);
            let verdict = match delay {
                0 => Verdict::Proceed,
                delay => Verdict::Wait(millis(delay)),
            };
            assert_eq!(throttle.check(&ann, now), verdict);
        }
        for _ in 0..100 {
            throttle.failed(&ann, now);
        }
        assert_eq!(throttle.check(&ann, now), Verdict::Wait(millis(10_000)));
    }

    #[test]
    fn the_delay_runs_off_and_nobody_is_locked_out() {
        let ann = key("10.0.0.1", "ann");
        let mut throttle = small(10);
        for _ in 0..4 {
            throttle.failed(&ann, millis(1_000));
        }
        assert_eq!(throttle.check(&ann, millis(1_060)), Verdict::Wait(millis(40)));
        assert_eq!(throttle.check(&ann, millis(1_100)), Verdict::Proceed);
        // A clock that went back waits, it does not panic.
        assert_eq!(throttle.check(&ann, millis(0)), Verdict::Wait(millis(100)));
    }

    #[test]
    fn a_success_clears_the_key_and_time_forgets_it() {
        let ann = key("10.0.0.1", "ann");
        let mut throttle = small(10);
        (0..9).for_each(|_| throttle.failed(&ann, millis(0)));
        throttle.succeeded(&ann);
        assert!(throttle.is_empty());
        (0..9).for_each(|_| throttle.failed(&ann, millis(0)));
        throttle.failed(&key("10.0.0.2", "bob"), Duration::from_secs(15 * 60));
        assert_eq!(throttle.len(), 1);
    }

    #[test]
    fn other_users_and_other_peers_are_not_slowed_down() {
        let mut throttle = small(10);
        let now = millis(0);
        (0..9).for_each(|_| throttle.failed(&key("10.0.0.1", "ann"), now));
        assert_ne!(throttle.check(&key("10.0.0.1", "ann"), now), Verdict::Proceed);
        for (peer, user) in [("10.0.0.1", "bob"), ("10.0.0.2", "ann")] {
            assert_eq!(throttle.check(&key(peer, user), now), Verdict::Proceed);
        }
        let local = ThrottleKey::new(None, "ann");
        assert_eq!(throttle.check(&local, now), Verdict::Proceed);
    }

    #[test]
    fn a_peer_is_its_ipv4_address_or_its_ipv6_network() {
        let same = |a, b| assert_eq!(key(a, "ann"), key(b, "ann"));
        same("::ffff:10.0.0.1", "10.0.0.1");
        same("2001:db8:0:1::1", "2001:db8:0:1:ffff::2");
        assert_ne!(key("2001:db8:0:1::1", "ann"), key("2001:db8:0:2::1", "ann"));
        assert_eq!(key("10.0.0.1", &"ä".repeat(1_000)), key("10.0.0.1", &"ä".repeat(31)));
    }

    #[test]
    fn the_key_that_failed_longest_ago_makes_room() {
        let mut throttle = small(2);
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(|user| key("10.0.0.1", user));
        for at in 0..4 {
            throttle.failed(&ann, millis(at));
        }
        throttle.failed(&bob, millis(5));
        throttle.failed(&ann, millis(6));
        throttle.failed(&eve, millis(7));
        assert_eq!(throttle.len(), 2);
        assert_eq!(throttle.check(&ann, millis(7)), Verdict::Wait(millis(199)));
    }

    proptest! {
        #[test]
        fn memory_and_delays_stay_within_their_limits(
            events in proptest::collection::vec((0..6_u8, any::<bool>(), 0..400_u64), 0..200),
        ) {
            let mut throttle = small(4);
            let mut now = Duration::ZERO;
            for (user, success, seconds) in events {
                now += Duration::from_secs(seconds);
                let key = key("10.0.0.1", &user.to_string());
                if success {
                    throttle.succeeded(&key);
                    prop_assert_eq!(throttle.check(&key, now), Verdict::Proceed);
                } else {
                    throttle.failed(&key, now);
                }
                prop_assert!(throttle.len() <= 4);
                prop_assert_eq!(throttle.failures.len(), throttle.by_age.len());
                if let Verdict::Wait(left) = throttle.check(&key, now) {
                    prop_assert!(left <= throttle.config.delay_max);
                }
            }
        }
    }
}
