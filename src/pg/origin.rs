//! Where a client comes from, and what its channel has told about it before it
//! said who it is.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use lancegate_auth::{CertificateNames, Channel, ChannelBinding};

/// The other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pg) enum Origin {
    /// An address.
    Tcp(SocketAddr),
    /// A process of this machine, with the user that the system says it runs as.
    Unix {
        /// The number of the user, if the system says it.
        user_id: Option<u32>,
    },
}

impl Origin {
    /// Returns the address, which a Unix socket has not.
    pub(in crate::pg) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix { .. } => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix { .. } => f.write_str("local"),
        }
    }
}

/// What is known of a channel.
#[derive(Debug)]
pub(in crate::pg) struct Peer {
    pub(in crate::pg) origin: Origin,
    /// Whether it is encrypted.
    pub(in crate::pg) is_tls: bool,
    /// What a login can be bound to.
    pub(in crate::pg) binding: ChannelBinding,
    /// The names of the certificate that the client has shown and that was verified.
    pub(in crate::pg) certificate: Option<CertificateNames>,
}

impl Peer {
    /// Returns what is known of a channel that nothing was said on.
    pub(in crate::pg) fn new(origin: Origin) -> Self {
        Self { origin, is_tls: false, binding: ChannelBinding::Unavailable, certificate: None }
    }

    /// Returns how it came, as rules name it.
    pub(in crate::pg) fn channel(&self) -> Channel {
        match self.origin {
            Origin::Unix { .. } => Channel::Local,
            Origin::Tcp(_) if self.is_tls => Channel::Tls,
            Origin::Tcp(_) => Channel::Plain,
        }
    }
}
