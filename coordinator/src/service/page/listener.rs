//! Where the page listens, and what it shows to whom.

use super::super::server_configs::ServerConfigs;
use accord_trust::{Clients, Trust};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// The protocol that browsers speak here.
const PROTOCOL: &[u8] = b"http/1.1";
/// Bytes of the page's address.
const URL_MAX: usize = 256;

/// The visitors without a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnonymousAccess {
    /// They see the cluster in numbers, without any names.
    Counts,
    /// They see how to get a code.
    Nothing,
}

/// The page's listening socket.
pub struct PageListener {
    pub(super) listener: TcpListener,
    /// `None`: browsers come from this machine, in clear.
    pub(super) tls: Option<ServerConfigs>,
    pub(super) anonymous_access: AnonymousAccess,
    /// Whether other machines reach it at its own address.
    pub(super) is_local: bool,
    pub(super) url: String,
    /// Names of hosts by which it is reached.
    pub(super) names: Vec<String>,
}

impl PageListener {
    /// Listens: on loopback in clear, and elsewhere by TLS. `url`: the page's address as browsers have it.
    ///
    /// # Errors
    /// Returns the reason in words if there is no certificate for other machines, or the system refuses the address.
    pub async fn bind(
        address: SocketAddr,
        trust: Option<Arc<Trust>>,
        url: Option<&str>,
        anonymous_access: AnonymousAccess,
    ) -> Result<Self, String> {
        let is_local = address.ip().is_loopback();
        let tls = match trust {
            _ if is_local => None,
            Some(trust) => Some(encryption(trust)),
            None => {
                return Err(format!(
                    "the page would be served at {address} in clear: choose 127.0.0.1 for --page-listen, or give --tls"
                ));
            }
        };
        let refused = |error| format!("cannot show the page at {address}: {error}; choose another --page-listen");
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let own = own_name();
        let named = url.and_then(host_of).map(str::to_owned);
        let url = url.map_or_else(|| default_url(address, tls.is_some(), own.as_deref()), str::to_owned);
        let names = own.into_iter().chain(named).collect();
        Ok(Self { listener, tls, anonymous_access, is_local, url, names })
    }

    /// Has browsers come by TLS on loopback, too.
    #[cfg(test)]
    pub(super) fn encrypted(self, trust: Arc<Trust>) -> Self {
        Self { tls: Some(encryption(trust)), ..self }
    }

    /// Returns the page's address as browsers have it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn encryption(trust: Arc<Trust>) -> ServerConfigs {
    ServerConfigs::new(trust, Clients::Unasked, vec![PROTOCOL.to_vec()])
}

/// Checks the address of a page that a setting names, and returns it without a slash at its end.
///
/// # Errors
/// Returns the reason in words if it is no address of a page without a path.
pub fn page_url(text: &str) -> Result<String, String> {
    let url = text.strip_suffix('/').unwrap_or(text);
    let is_host = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    let is_good =
        url.len() <= URL_MAX && host_of(url).is_some_and(|host| is_host(host) || host.parse::<IpAddr>().is_ok());
    if is_good { Ok(url.to_owned()) } else { Err("an address such as https://accord.site:7450 is needed".to_owned()) }
}

/// Returns the host of an address of a page, without port and brackets.
fn host_of(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some("0"))?),
        None => authority.split_once(':').unwrap_or((authority, "0")),
    };
    port.parse::<u16>().is_ok().then_some(host)
}

fn default_url(address: SocketAddr, is_secure: bool, own: Option<&str>) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    match own.filter(|_| address.ip().is_unspecified()) {
        Some(own) => format!("{scheme}://{own}:{}", address.port()),
        None => format!("{scheme}://{address}"),
    }
}

/// Returns this machine's name, unless it would be none in an address.
fn own_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_owned();
    page_url(&format!("http://{name}")).is_ok().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_page_has_a_host_and_no_path() {
        for (url, host) in [
            ("https://accord.site", "accord.site"),
            ("http://head:7450/", "head"),
            ("http://10.0.0.1:1", "10.0.0.1"),
            ("https://[fd00::1]:7450", "fd00::1"),
            ("https://[fd00::1]", "fd00::1"),
        ] {
            assert_eq!(host_of(&page_url(url).unwrap()), Some(host), "{url}");
        }
        for wrong in
            ["", "head", "ftp://head", "http://", "http://head:port", "http://head/x", "http://a b", "http://[::1]x"]
        {
            assert!(page_url(wrong).is_err(), "{wrong}");
        }
        assert!(page_url(&format!("http://{}", "a".repeat(URL_MAX))).is_err());
    }

    #[test]
    fn a_page_of_all_addresses_is_at_the_machines_name() {
        let of = |address: &str, is_secure| default_url(address.parse().unwrap(), is_secure, Some("head"));
        assert_eq!(of("0.0.0.0:7450", true), "https://head:7450");
        assert_eq!(of("[::1]:7450", false), "http://[::1]:7450");
        assert_eq!(of("10.0.0.1:7450", true), "https://10.0.0.1:7450");
    }

    #[tokio::test]
    async fn without_a_certificate_a_page_is_for_this_machine() {
        let bind = |address: &str| PageListener::bind(address.parse().unwrap(), None, None, AnonymousAccess::Nothing);
        let page = bind("127.0.0.1:0").await.ok().unwrap();
        assert!(page.is_local && page.tls.is_none() && page.url().starts_with("http://127.0.0.1:"), "{}", page.url());
        assert!(bind("0.0.0.0:0").await.err().unwrap().contains("in clear"));
    }
}
