//! The listeners, bound before anything else.

use std::io;
use std::net::SocketAddr;

use lancegate_engine::config::Config;
use tokio::net::TcpListener;

use super::StartError;

/// How often two free ports in a row are looked for.
const PAIRS_MAX: usize = 64;

/// A listener, and the address that it really has, which differs for port 0.
pub(super) type Bound = (TcpListener, SocketAddr);

/// All listeners of a gateway.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) pg: Bound,
    pub(super) http: Bound,
    /// Absent where Flight SQL is off.
    pub(super) flight: Option<Bound>,
}

impl Sockets {
    /// Binds what the configuration names.
    ///
    /// # Errors
    /// [`StartError::Bind`].
    pub(super) async fn bind(config: &Config) -> Result<Self, StartError> {
        let pg = bind("pg.listen", config.pg.listen).await?;
        let (http, flight) = match (config.flight.enabled, config.flight.listen) {
            (false, _) => (bind("http.listen", config.http.listen).await?, None),
            (true, Some(listen)) => {
                let http = bind("http.listen", config.http.listen).await?;
                (http, Some(bind("flight.listen", listen).await?))
            }
            (true, None) => {
                let (http, flight) = pair(config.http.listen).await?;
                (http, Some(flight))
            }
        };
        Ok(Self { pg, http, flight })
    }
}

/// Binds HTTP and, one port above it, Flight SQL. Where the first may be any free
/// port, it is one whose neighbour is free.
async fn pair(http: SocketAddr) -> Result<(Bound, Bound), StartError> {
    let mut tries = if http.port() == 0 { PAIRS_MAX } else { 1 };
    loop {
        tries -= 1;
        let first = bind("http.listen", http).await?;
        let above = first.1.port().checked_add(1);
        let second = match above {
            Some(port) => bind("flight.listen", SocketAddr::new(first.1.ip(), port)).await,
            None => {
                let cause = io::Error::from(io::ErrorKind::AddrNotAvailable);
                Err(StartError::Bind { key: "flight.listen", address: first.1, cause })
            }
        };
        match second {
            Ok(second) => return Ok((first, second)),
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

async fn bind(key: &'static str, address: SocketAddr) -> Result<Bound, StartError> {
    let failed = |cause| StartError::Bind { key, address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn flight_sql_is_one_port_above_http_also_where_the_port_is_free_to_choose() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (http, flight) = pair(any).await.unwrap();
        assert_eq!(flight.1.port(), http.1.port() + 1);
        let taken = pair(http.1).await.unwrap_err().to_string();
        assert!(taken.starts_with("http.listen"), "{taken}");
        drop(http.0);
        let taken = pair(http.1).await.unwrap_err().to_string();
        assert!(taken.starts_with("flight.listen"), "{taken}");
    }
}
