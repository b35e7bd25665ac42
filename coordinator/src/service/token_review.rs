//! Has the Kubernetes API server verify tokens (TokenReview). Reviews are few at a time and limited in time, and
//! answers are cached.

use super::api_server::ApiServer;
use accord_trust::token::AUDIENCE;
use accord_types::service_account::namespace;
use accord_types::short_lock::ShortLock;
use accord_types::texts::cut;
use accord_types::{Error, ErrorCode, Result};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Most reviews at one time.
const REVIEWS_MAX: usize = 8;
/// Timeout of a review, including the wait for its turn. The timeout of the program's handshake is longer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which an answer is cached. A revoked token opens sessions for so long.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Most tokens in the cache. A full cache is cleared.
const KNOWN_MAX: usize = 4_096;
/// Longest part of the API server's message that is passed on, in bytes.
const WORDS_MAX: usize = 300;

/// The hash of a token: the cache does not hold the token itself.
type TokenHash = [u8; 32];

/// The tokens whose users the API server has named lately.
#[derive(Default)]
struct TokenCache {
    users: HashMap<TokenHash, (Instant, String)>,
}

impl TokenCache {
    fn user(&self, hash: &TokenHash, now: Instant) -> Option<String> {
        let known = self.users.get(hash).filter(|(since, _)| now.saturating_duration_since(*since) < KNOWN_FOR);
        known.map(|(_, user)| user.clone())
    }

    fn insert(&mut self, hash: TokenHash, user: String, now: Instant) {
        if self.users.len() >= KNOWN_MAX {
            self.users.clear();
        }
        self.users.insert(hash, (now, user));
    }
}

/// The reviewer of tokens.
pub(super) struct TokenReviews {
    server: ApiServer,
    turns: Arc<Semaphore>,
    known: ShortLock<TokenCache>,
}

impl TokenReviews {
    pub(super) fn new(server: ApiServer) -> Self {
        Self { server, turns: Arc::new(Semaphore::new(REVIEWS_MAX)), known: ShortLock::default() }
    }

    /// Returns the user of a token.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the API server rejects the token, and `acc_error_system` if the server
    /// can't be asked now.
    pub(super) async fn user_of(&self, token: &str) -> Result<String> {
        let hash: TokenHash = Sha256::digest(token).into();
        if let Some(user) = self.known(&hash) {
            return Ok(user);
        }
        let reviewed = tokio::time::timeout(REVIEW_TIMEOUT, self.review(&hash, token)).await;
        reviewed.unwrap_or_else(|_| Err(self.unasked(&format!("no answer within {REVIEW_TIMEOUT:?}"))))
    }

    async fn review(&self, hash: &TokenHash, token: &str) -> Result<String> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| self.unasked("the coordinator stops"))?;
        // The turn lasts as long as the review and its thread, which a review that gives up leaves behind.
        let turn = Arc::new(turn);
        let asked = Instant::now();
        // Of programs that started together one may have asked meanwhile.
        if let Some(user) = self.known(hash) {
            return Ok(user);
        }
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token, "audiences": [AUDIENCE] },
        });
        let answered = self.server.post(PATH, question.to_string(), turn.clone()).await;
        let (status, answer) = answered.map_err(|why| self.unasked(&why))?;
        if matches!(status.as_u16(), 401 | 403) {
            let cause = format!("{} refuses the coordinator's own service account: {status}", self.called());
            let remedy = "bind the ClusterRole system:auth-delegator to it, and look whether its token is mounted";
            return Err(refused(cause).remedy(remedy));
        }
        if !status.is_success() {
            return Err(self.unasked(&format!("it answers {status}")));
        }
        let user = reviewed(&answer, token, &self.called())?;
        self.known.lock().insert(*hash, user.clone(), asked);
        Ok(user)
    }

    fn known(&self, hash: &TokenHash) -> Option<String> {
        self.known.lock().user(hash, Instant::now())
    }

    fn called(&self) -> String {
        format!("the Kubernetes API server at {}", self.server.address)
    }

    fn unasked(&self, why: &str) -> Error {
        let cause = format!("{} can't be asked whose a token is: {}", self.called(), plain(why));
        let remedy = "look at the coordinator's --token-review and at network policies for its pod";
        Error::new(ErrorCode::System, cause).remedy(remedy)
    }
}

/// The relevant part of a TokenReview.
#[derive(Deserialize)]
struct Review {
    kind: String,
    #[serde(default)]
    status: Verdict,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Verdict {
    authenticated: bool,
    error: String,
    user: Reviewed,
    audiences: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reviewed {
    username: String,
}

/// Returns the user in the API server's answer about a token. No error repeats the token, even if the answer does.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the token is refused, or is for another audience, or not of a service account; if the answer is none.
pub fn reviewed(answer: &[u8], token: &str, server: &str) -> Result<String> {
    let review = serde_json::from_slice(answer).ok().filter(|review: &Review| review.kind == "TokenReview");
    let Some(Review { status, .. }) = review else {
        let cause = format!("{server} answers with what is no TokenReview");
        return Err(refused(cause).remedy("look whether the coordinator's --token-review names the API server"));
    };
    if !status.authenticated {
        let printed = status.error.replace(token, "TOKEN");
        let why = if printed.is_empty() { "it gives no reason" } else { &printed };
        let cause = format!("{server} refuses the program's token: {}", plain(why));
        return Err(refused(cause).remedy(MOUNT));
    }
    // A server without support for audiences names none. The token is then for the API server itself.
    if !status.audiences.iter().any(|audience| audience == AUDIENCE) {
        let cause = format!(
            "the program's token is for the audience {:?}, not {AUDIENCE:?}",
            plain(&status.audiences.join(", "))
        );
        return Err(refused(cause).remedy(MOUNT));
    }
    let user = status.user.username;
    if namespace(&user).is_none() {
        let cause =
            format!("the program's token is of {:?}, which is no service account that can be a user", plain(&user));
        return Err(refused(cause).remedy(MOUNT));
    }
    Ok(user)
}

const MOUNT: &str = "mount a projected volume with a serviceAccountToken of audience accord in the program's pod";

/// Returns the beginning of a foreign text, without control characters that a terminal would interpret.
fn plain(text: &str) -> String {
    cut(text, WORDS_MAX).chars().filter(|c| !c.is_control()).collect()
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: &str) -> Result<String> {
        let answer = format!("{{\"kind\": \"TokenReview\", \"status\": {status}}}");
        reviewed(answer.as_bytes(), "head.claims.signature", "the server")
    }

    #[test]
    fn an_answer_counts_for_a_while_and_answers_are_bounded() {
        let (mut known, begin) = (TokenCache::default(), Instant::now());
        let hash = |number: usize| -> TokenHash { Sha256::digest(number.to_le_bytes()).into() };
        known.insert(hash(0), "eva".to_owned(), begin);
        assert_eq!(known.user(&hash(0), begin).as_deref(), Some("eva"));
        assert_eq!(known.user(&hash(1), begin), None);
        let last = begin + KNOWN_FOR.saturating_sub(Duration::from_nanos(1));
        assert_eq!(known.user(&hash(0), last).as_deref(), Some("eva"));
        assert_eq!(known.user(&hash(0), begin + KNOWN_FOR), None);
        for number in 0..=KNOWN_MAX {
            known.insert(hash(number), "eva".to_owned(), begin);
            assert!(known.users.len() <= KNOWN_MAX);
        }
        assert_eq!(known.user(&hash(KNOWN_MAX), begin).as_deref(), Some("eva"));
    }

    #[test]
    fn only_a_service_accounts_token_for_this_audience_counts() {
        let user = r#""user": {"username": "system:serviceaccount:physics:train", "groups": ["a"]}"#;
        let accepted = of(&format!(r#"{{"authenticated": true, {user}, "audiences": ["x", "accord"]}}"#));
        assert_eq!(accepted.unwrap(), "system:serviceaccount:physics:train");
        for (status, cause) in [
            ("{}".to_owned(), "refuses the program's token: it gives no reason"),
            (
                r#"{"authenticated": false, "error": "[invalid\u001b bearer token]"}"#.to_owned(),
                "[invalid bearer token]",
            ),
            (
                r#"{"authenticated": false, "error": "head.claims.signature has expired"}"#.to_owned(),
                "refuses the program's token: TOKEN has expired",
            ),
            (format!(r#"{{"authenticated": false, {user}, "audiences": ["accord"]}}"#), "refuses"),
            (format!(r#"{{"authenticated": true, {user}}}"#), r#"for the audience "", not "accord""#),
            (
                format!(r#"{{"authenticated": true, {user}, "audiences": ["accords"]}}"#),
                r#"for the audience "accords""#,
            ),
            (r#"{"authenticated": true, "audiences": ["accord"]}"#.to_owned(), "no service account"),
            (
                r#"{"authenticated": true, "user": {"username": "admin"}, "audiences": ["accord"]}"#.to_owned(),
                r#"of "admin", which is no service account"#,
            ),
        ] {
            let error = of(&status).unwrap_err();
            assert!(error.cause().contains(cause) && error.remedy_text().is_some(), "{status}: {error}");
        }
    }

    #[test]
    fn malformed_token_reviews_are_reported() {
        for answer in [
            "",
            "garbage",
            "{}",
            "[]",
            r#"{"kind": "Status", "status": "Failure"}"#,
            r#"{"kind": "TokenReview", "status": 1}"#,
        ] {
            let error = reviewed(answer.as_bytes(), "a.b.c", "the server").unwrap_err();
            assert!(error.cause().contains("the server answers with what is no TokenReview"), "{answer}: {error}");
        }
    }
}
