//! Which requests are answered at all: of browsers that have been sent to this page, by this page or by their users.

use super::answers::{Answer, refusal};
use hyper::header::{ALLOW, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};
use std::net::IpAddr;

/// The header by which browsers say where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request with another method than GET, for another host than this page's, or made by another site's page.
///
/// # Errors
/// Returns the answer that says why.
pub(super) fn check<B>(request: &Request<B>, names: &[String]) -> Result<(), Box<Answer>> {
    let no = |status, why: &str| Err(Box::new(refusal(status, why)));
    if request.method() != Method::GET {
        let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered: this page changes nothing");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return Err(Box::new(answer));
    }
    if request.uri().authority().is_some() {
        return no(StatusCode::BAD_REQUEST, "this is no proxy");
    }
    let Some(host) = only(request.headers(), &HOST) else {
        return no(StatusCode::BAD_REQUEST, "a request names one host");
    };
    if !is_own(host, names) {
        let why = "this page is not at that name: use the address that accord page prints, or name it by --page-name";
        return no(StatusCode::MISDIRECTED_REQUEST, why);
    }
    let has_origin = request.headers().contains_key(ORIGIN);
    let origin = only(request.headers(), &ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    if has_origin && !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
        return no(StatusCode::FORBIDDEN, "another site's page has asked for this");
    }
    // A link on another site leads to the page, and to nothing else.
    let from = only(request.headers(), &FETCH_SITE);
    if !matches!(from, None | Some("same-origin" | "none")) && request.uri().path() != "/" {
        return no(StatusCode::FORBIDDEN, "another site's page leads here: type or paste the address instead");
    }
    Ok(())
}

/// Returns the value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// Whether a host with or without port is this page's. An address is: no other site's name leads to one.
fn is_own(host: &str, names: &[String]) -> bool {
    let (name, is_bracketed) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => (name, true),
        None => (host.rsplit_once(':').map_or(host, |(name, _)| name), false),
    };
    let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() == is_bracketed);
    let is_named = |own: &str| own.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name));
    is_address || !is_bracketed && (is_named("localhost") || names.iter().any(|own| is_named(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_and_addresses_are_hosts() {
        let names = ["head.site".to_owned()];
        for own in
            ["head.site", "HEAD.site:7450", "head.site.", "localhost:1", "10.0.0.1:7450", "[fd00::1]:7450", "[::1]"]
        {
            assert!(is_own(own, &names), "{own}");
        }
        for other in
            ["", "evil.site", "head.site.evil", "localhost.evil:7450", "10.0.0.1.evil", "[head.site]", "fd00::1:7450"]
        {
            assert!(!is_own(other, &names), "{other}");
        }
    }
}
