//! Answers by path.

use super::super::jobs::usage_page;
use super::super::viewer::Viewer;
use super::answers::{self, Answer, refusal, with_cookie};
use super::listener::AnonymousAccess;
use super::site::{SignedIn, Site};
use super::{events, files, guard, query};
use accord_proto::v1;
use accord_types::Result;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The way to a code, in words.
const HOW: &str = "this needs a code: run accord page where you use the cluster, and open the address that it prints";

/// Answers a request. `admit` is called with a visitor that is known.
pub(super) async fn answer<B: Sync>(
    site: &Arc<Site>,
    request: &Request<B>,
    admit: impl FnOnce(&SignedIn) -> Result<()>,
) -> Answer {
    if let Err(refused) = guard::check(request, &site.names) {
        return *refused;
    }
    let (path, query) = (request.uri().path(), request.uri().query());
    if let Some(file) = files::file(path) {
        return file;
    }
    if path == "/enter" {
        return enter(site, query);
    }
    let signed_in = site.signed_in(request.headers());
    if let Some(Err(error)) = signed_in.as_ref().map(admit) {
        return refusal(StatusCode::TOO_MANY_REQUESTS, error.cause());
    }
    let is_shut = signed_in.is_none() && site.anonymous_access == AnonymousAccess::Nothing;
    match (path, signed_in) {
        ("/", _) if is_shut => files::how_to_enter(),
        _ if is_shut => refusal(StatusCode::FORBIDDEN, HOW),
        ("/", _) => files::page(),
        ("/visitor", signed_in) => answers::json(&seen_as(signed_in.as_ref())),
        ("/events", signed_in) => events::begin(site, signed_in, query),
        ("/past", _) => answers::json(&site.past()),
        ("/usage", None) => refusal(StatusCode::FORBIDDEN, HOW),
        ("/usage", Some(signed_in)) => usage(site, &signed_in, query).await,
        _ => refusal(StatusCode::NOT_FOUND, "there is no such page; the page is at /"),
    }
}

fn enter(site: &Site, query: Option<&str>) -> Answer {
    match query::only(query, "code").map(|code| site.enter(code)) {
        Ok(Ok(Some(cookie))) => with_cookie(&cookie),
        Ok(Ok(None)) => files::how_to_enter(),
        Ok(Err(status)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, status.message()),
        Err(why) => refusal(StatusCode::BAD_REQUEST, &why),
    }
}

/// The visitor, as the page greets it.
fn seen_as(signed_in: Option<&SignedIn>) -> Value {
    let viewer = signed_in.map(|signed_in| Viewer::of(&signed_in.caller));
    json!({
        "name": viewer.as_ref().map(|viewer| &viewer.called),
        "user": viewer.as_ref().and_then(|viewer| viewer.user.as_ref()),
        "is_admin": viewer.as_ref().is_some_and(|viewer| viewer.is_admin),
    })
}

/// A page of what was used by account.
async fn usage(site: &Arc<Site>, signed_in: &SignedIn, query: Option<&str>) -> Answer {
    let from = query.map_or(Ok(0), |_| query::only(query, "from")?.parse().map_err(|_| "from is no number".to_owned()));
    let from = match from {
        Ok(from) => from,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, &why),
    };
    let (driver, viewer) = (site.driver.clone(), Viewer::of(&signed_in.caller));
    let question = move || usage_page(&driver, &viewer, accord_scheduler::ledger::UsageBy::Account, from);
    match site.questions.work(&signed_in.caller, question).await {
        Ok(reply) => answers::json(&json!({
            "since_unix_ms": reply.since_unix_ms,
            "next": reply.next,
            "rows": reply.rows.iter().map(usage_row).collect::<Vec<_>>(),
        })),
        Err(status) => refusal(StatusCode::TOO_MANY_REQUESTS, status.message()),
    }
}

fn usage_row(row: &v1::UsageRow) -> Value {
    json!({
        "account": row.name,
        "device_ms": row.device_ms,
        "jobs": row.jobs,
        "busy_ms": row.busy_ms,
        "unknown_ms": row.unknown_ms,
    })
}
