//! Ranges of addresses.

use std::net::IpAddr;

/// An address with the number of leading bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns the range, or `None` if the address has fewer bits, or is an IPv4 address
    /// in the form of an IPv6 one, which no address of a client has. Bits beyond the prefix
    /// do not count, whatever they are.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        (bits <= width(address) && !is_mapped).then_some(Self { address, bits })
    }

    /// Returns the range of an address and a mask such as 255.255.255.0; `None`
    /// if they are of two families or the mask has a gap.
    pub fn with_mask(address: IpAddr, mask: IpAddr) -> Option<Self> {
        let bits = match (address, mask) {
            (IpAddr::V4(_), IpAddr::V4(mask)) => contiguous(u128::from(mask.to_bits()) << 96)?,
            (IpAddr::V6(_), IpAddr::V6(mask)) => contiguous(mask.to_bits())?,
            _ => return None,
        };
        Self::new(address, bits)
    }

    /// Returns whether the address is in the range. An IPv4 address that came over
    /// an IPv6 socket counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = u64::from(network.to_bits() ^ address.to_bits());
                differing >> (32 - self.bits) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Returns whether the range is within this machine.
    pub fn is_loopback(&self) -> bool {
        let least = if self.address.is_ipv4() { 8 } else { 128 };
        self.address.is_loopback() && self.bits >= least
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the number of leading ones of a mask without gaps.
fn contiguous(mask: u128) -> Option<u8> {
    let bits = mask.leading_ones();
    (mask.checked_shl(bits).unwrap_or(0) == 0).then_some(bits as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        let (address, bits) = text.split_once('/').unwrap();
        Network::new(address.parse().unwrap(), bits.parse().unwrap()).unwrap()
    }

    fn check(range: &str, inside: &[&str], outside: &[&str]) {
        for address in inside {
            assert!(network(range).contains(address.parse().unwrap()), "{address} is in {range}");
        }
        for address in outside {
            assert!(!network(range).contains(address.parse().unwrap()), "{address} is not in {range}");
        }
    }

    #[test]
    fn a_range_has_the_addresses_of_its_prefix_and_family() {
        check("10.1.2.3/8", &["10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1"], &["11.0.0.0", "9.255.255.255", "::"]);
        check("10.1.2.3/32", &["10.1.2.3"], &["10.1.2.2"]);
        check("0.0.0.0/0", &["1.2.3.4", "255.255.255.255"], &["::1"]);
        check("::/0", &["::1", "fe80::1"], &["1.2.3.4", "::ffff:1.2.3.4"]);
        check("fe80::/10", &["fe80::1", "febf::1"], &["fec0::1"]);
        check("::1/128", &["::1"], &["::2"]);
    }

    #[test]
    fn masks_are_prefixes_of_the_same_family() {
        let with = |address: &str, mask: &str| Network::with_mask(address.parse().unwrap(), mask.parse().unwrap());
        assert_eq!(with("10.0.0.0", "255.255.0.0"), Some(network("10.0.0.0/16")));
        assert_eq!(with("10.0.0.0", "0.0.0.0"), Some(network("10.0.0.0/0")));
        assert_eq!(with("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Some(network("::1/128")));
        assert_eq!(with("10.0.0.0", "255.0.255.0"), None);
        assert_eq!(with("10.0.0.0", "ffff::"), None);
        assert_eq!(Network::new("10.0.0.0".parse().unwrap(), 33), None);
    }

    #[test]
    fn only_this_machine_is_loopback() {
        assert!(network("127.0.0.1/32").is_loopback() && network("127.0.0.0/8").is_loopback());
        assert!(network("::1/128").is_loopback());
        assert!(!network("127.0.0.0/7").is_loopback() && !network("::1/127").is_loopback());
        assert!(!network("10.0.0.0/8").is_loopback());
    }
}
