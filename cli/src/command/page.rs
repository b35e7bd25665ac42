//! `accord page`: the coordinator's page in a browser.

use crate::client::Coordinator;
use crate::failure::Result;
use crate::output::{age, print, report_line, show};
use crate::page_args::PageArgs;
use accord_proto::v1::OpenPageReply;
use serde_json::json;

/// Runs `accord page`.
pub(crate) fn page(args: &PageArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    let reply = coordinator.open_page()?;
    if args.json {
        print(&format!("{:#}\n", json!({ "url": reply.url, "valid_ms": reply.valid_ms, "local": reply.is_local })));
        return Ok(0);
    }
    show(&format!("{}\n", reply.url));
    report_line(format_args!("the address is good for one browser, once, within {}", age(reply.valid_ms)));
    if let Some(tunnel) = tunnel(&reply, coordinator.address()) {
        report_line(format_args!(
            "the page is for browsers on the coordinator's machine; from another one first run {tunnel}"
        ));
    }
    Ok(0)
}

/// The command that takes a browser of another machine to a page that listens on loopback; `None` if that is not needed.
fn tunnel(reply: &OpenPageReply, coordinator: &str) -> Option<String> {
    let at = reply.url.strip_prefix("http://").filter(|_| reply.is_local)?;
    let (at, _) = at.split_once('/')?;
    let (_, port) = at.rsplit_once(':')?;
    let host = coordinator.rsplit_once(':').map(|(host, _)| host).filter(|_| !coordinator.starts_with("unix:"));
    Some(format!("ssh -N -L {port}:{at} {}", host.unwrap_or("HOST")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(url: &str, is_local: bool) -> OpenPageReply {
        OpenPageReply { url: url.to_owned(), valid_ms: 60_000, is_local }
    }

    #[test]
    fn a_page_on_loopback_needs_a_tunnel() {
        let local = reply("http://127.0.0.1:7450/enter?code=ab", true);
        assert_eq!(tunnel(&local, "head:7447").as_deref(), Some("ssh -N -L 7450:127.0.0.1:7450 head"));
        assert_eq!(tunnel(&local, "unix:/run/accord").as_deref(), Some("ssh -N -L 7450:127.0.0.1:7450 HOST"));
        assert_eq!(
            tunnel(&reply("https://accord.site/enter?code=ab", true), "head:7447"),
            None,
            "a proxy is in between"
        );
        assert_eq!(tunnel(&reply("https://head:7450/enter?code=ab", false), "head:7447"), None);
    }
}
