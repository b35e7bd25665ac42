//! Answers of the page, each with the headers that keep other sites away from it.

use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use tokio_stream::wrappers::ReceiverStream;

/// Events on their way to a browser.
pub(super) type Events = ReceiverStream<Result<Frame<Bytes>, Infallible>>;
/// A whole answer, or events.
pub(super) type Answer = Response<Either<Full<Bytes>, StreamBody<Events>>>;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// What a page may load: only from here, and nothing in its own text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Headers of all answers.
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Creates an answer of a kind of contents.
pub(super) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    answer(status, kind, Either::Left(Full::new(body.into())))
}

/// Creates an answer in JSON.
pub(super) fn json(value: &serde_json::Value) -> Answer {
    whole(StatusCode::OK, JSON, value.to_string())
}

/// Creates an answer that says why there is no other one.
pub(super) fn refusal(status: StatusCode, why: &str) -> Answer {
    whole(status, TEXT, format!("{why}\n"))
}

/// Creates an answer of events, as they come.
pub(super) fn events(events: Events) -> Answer {
    answer(StatusCode::OK, EVENTS, Either::Right(StreamBody::new(events)))
}

/// Creates an answer that gives a browser a cookie and sends it to the page.
pub(super) fn with_cookie(cookie: &HeaderValue) -> Answer {
    let mut answer = refusal(StatusCode::SEE_OTHER, "the page is at /");
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    answer.headers_mut().insert(SET_COOKIE, cookie.clone());
    answer
}

fn answer(status: StatusCode, kind: &'static str, body: Either<Full<Bytes>, StreamBody<Events>>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    answer
}
