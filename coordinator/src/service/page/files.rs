//! Files of the page, which are in the program.

use super::answers::{Answer, whole};
use hyper::StatusCode;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Returns the file with a path that every visitor may have; `None` if there is none.
pub(super) fn file(path: &str) -> Option<Answer> {
    let (kind, text) = match path {
        "/page.css" => (CSS, include_str!("files/page.css")),
        "/page.js" => (SCRIPT, include_str!("files/page.js")),
        "/words.js" => (SCRIPT, include_str!("files/words.js")),
        "/chart.js" => (SCRIPT, include_str!("files/chart.js")),
        "/icon.svg" => (PICTURE, include_str!("files/icon.svg")),
        _ => return None,
    };
    Some(whole(StatusCode::OK, kind, text))
}

/// Returns the page itself.
pub(super) fn page() -> Answer {
    whole(StatusCode::OK, HTML, include_str!("files/page.html"))
}

/// Returns the page for strangers, which says how to get a code.
pub(super) fn how_to_enter() -> Answer {
    whole(StatusCode::FORBIDDEN, HTML, include_str!("files/enter.html"))
}
