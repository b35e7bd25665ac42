//! Addresses of servers that the coordinator calls.

use accord_proto::threads::on_thread;
use std::net::{SocketAddr, ToSocketAddrs};

/// Resolves `host:port` on a thread, as the runtime has one thread only.
///
/// # Errors
/// Returns the cause in words if the name has no address or the system has no thread.
pub(crate) async fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let address = address.to_owned();
    let look_up = move || address.to_socket_addrs().map(Vec::from_iter);
    let found = on_thread("accord-lookup", (), look_up).await.map_err(|error| error.to_string())?;
    found.map_err(|error| error.to_string())
}

/// Returns the host of `host:port`, an IPv6 address without its brackets.
pub(crate) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn the_host_of_an_address_is_without_port_and_brackets() {
        assert_eq!(
            ["10.0.0.1:443", "[fd00::1]:443", "api.site:6443"].map(host_of),
            ["10.0.0.1", "fd00::1", "api.site"]
        );
    }
}
