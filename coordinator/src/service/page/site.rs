//! What the page's connections share.

use super::super::board::{Boards, Watcher};
use super::super::caller::Caller;
use super::super::driver::{Driver, unix_ms};
use super::super::questions::Questions;
use super::super::tenants::Tenants;
use super::super::viewer::Viewer;
use super::grants::{Bounds, Grants};
use super::listener::{AnonymousAccess, PageListener};
use super::past::SummaryHistory;
use accord_fabric::new_session_key;
use accord_proto::v1;
use accord_telemetry::log::AUDIT;
use accord_types::short_lock::ShortLock;
use hyper::header::{COOKIE, HeaderMap, HeaderValue};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;

/// Codes of one user, and of all, that have not been used.
const CODES_OF_ONE_USER_MAX: usize = 4;
const CODES_MAX: usize = 4_096;
const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// Browsers of one user, and of all, that are known.
const BROWSERS_OF_ONE_USER_MAX: usize = 8;
const BROWSERS_MAX: usize = 4_096;
const BROWSER_LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// Name of the cookie; with the prefix a browser takes it by TLS only, and for this host.
const COOKIE_NAME: &str = "accord";
const SECURE_COOKIE_NAME: &str = "__Host-accord";

/// The page.
pub(crate) struct Site {
    pub(super) driver: Arc<Driver>,
    pub(super) boards: Arc<Boards>,
    pub(super) questions: Arc<Questions>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) anonymous_access: AnonymousAccess,
    pub(super) names: Vec<String>,
    url: String,
    is_local: bool,
    codes: ShortLock<Grants>,
    browsers: ShortLock<Grants>,
    past: ShortLock<SummaryHistory>,
}

/// A user or an administrator in front of a browser.
pub(super) struct SignedIn {
    pub(super) caller: Caller,
    /// The browser's cookie.
    pub(super) secret: String,
}

impl Site {
    pub(crate) fn new(
        page: &PageListener,
        driver: Arc<Driver>,
        boards: Arc<Boards>,
        questions: Arc<Questions>,
        tenants: Arc<Tenants>,
    ) -> Arc<Self> {
        let codes = Bounds { of_one_user: CODES_OF_ONE_USER_MAX, in_all: CODES_MAX, lifetime: CODE_LIFETIME };
        let browsers =
            Bounds { of_one_user: BROWSERS_OF_ONE_USER_MAX, in_all: BROWSERS_MAX, lifetime: BROWSER_LIFETIME };
        Arc::new(Self {
            driver,
            boards,
            questions,
            tenants,
            anonymous_access: page.anonymous_access,
            names: page.names.clone(),
            url: page.url.clone(),
            is_local: page.is_local,
            codes: ShortLock::new(Grants::new(codes)),
            browsers: ShortLock::new(Grants::new(browsers)),
            past: ShortLock::default(),
        })
    }

    /// Returns the page's address with a code for a caller.
    ///
    /// # Errors
    /// Returns `internal` if the system provides no random bytes.
    pub(crate) fn open(&self, caller: &Caller) -> Result<v1::OpenPageReply, Status> {
        let code = secret()?;
        self.codes.lock().give(&code, caller.clone(), Instant::now());
        Ok(v1::OpenPageReply {
            url: format!("{}/enter?code={code}", self.url),
            valid_ms: u64::try_from(CODE_LIFETIME.as_millis()).unwrap_or(u64::MAX),
            is_local: self.is_local,
        })
    }

    /// Returns the cookie of a browser that has brought a code; `None` if the code is not valid.
    ///
    /// # Errors
    /// Returns `internal` if the system provides no random bytes.
    pub(super) fn enter(&self, code: &str) -> Result<Option<HeaderValue>, Status> {
        let Some(grant) = self.codes.lock().take(code, Instant::now()) else { return Ok(None) };
        let secret = secret()?;
        tracing::info!(target: AUDIT, "{} opens the page", grant.caller.called());
        self.browsers.lock().give(&secret, grant.caller, Instant::now());
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let lifetime = BROWSER_LIFETIME.as_secs();
        let cookie =
            format!("{}={secret}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict{secure}", self.cookie_name());
        HeaderValue::try_from(cookie).map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    /// Returns the visitor whose browser has sent these headers; `None` for a stranger.
    pub(super) fn signed_in(&self, headers: &HeaderMap) -> Option<SignedIn> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let secrets = pairs.filter(|(name, _)| *name == self.cookie_name()).map(|(_, secret)| secret);
        let browsers = self.browsers.lock();
        let mut known = secrets.filter_map(|secret| {
            let caller = browsers.of(secret, Instant::now())?.caller;
            Some(SignedIn { caller, secret: secret.to_owned() })
        });
        known.next()
    }

    /// Whether a browser's cookie is valid.
    pub(super) fn knows(&self, secret: &str) -> bool {
        self.browsers.lock().of(secret, Instant::now()).is_some()
    }

    /// Takes a sample of how busy the cluster is.
    pub(super) async fn sample(&self) {
        // Without a thread there is no sample.
        let Ok(board) = self.boards.fresh().await else { return };
        let reply = Watcher::new(Viewer::unauthenticated(), v1::WatchRequest::default()).reply(&*self.driver, &board);
        if let Some(summary) = reply.and_then(|reply| reply.summary) {
            self.past.lock().add(unix_ms(), summary);
        }
    }

    /// Returns how busy the cluster was in the last hour.
    pub(super) fn past(&self) -> Value {
        self.past.lock().json()
    }

    fn is_secure(&self) -> bool {
        self.url.starts_with("https:")
    }

    fn cookie_name(&self) -> &'static str {
        if self.is_secure() { SECURE_COOKIE_NAME } else { COOKIE_NAME }
    }
}

/// Returns text that can't be guessed.
fn secret() -> Result<String, Status> {
    let key = new_session_key().map_err(|error| Status::internal(error.to_string()))?;
    let mut text = String::new();
    for byte in key.0 {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
