//! Identifies callers without a certificate by the system, MUNGE or Kubernetes. The user database and MUNGE may block,
//! so they are queried on a few threads of their own.

use super::api_server::ApiServer;
use super::caller::Caller;
use super::token_review::TokenReviews;
use accord_fabric::new_session_key;
use accord_proto::Stream;
use accord_proto::threads::on_thread;
use accord_trust::Role;
use accord_trust::attest::{self, Attested, Host, NOBODY, NONCE_LEN, Witness};
use accord_trust::munge::{CREDENTIAL_MAX, Munge};
use accord_trust::token;
use accord_trust::users::UserRules;
use accord_types::{Error, ErrorCode, Result};
use nix::unistd::{Uid, User, geteuid};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// Most concurrent queries.
const QUESTIONS_MAX: usize = 8;

/// The configured witnesses for callers without a certificate.
#[derive(Clone, Debug, Default)]
pub struct Attestation {
    /// The socket of MUNGE's daemon; `None` refuses its credentials.
    pub munge: Option<PathBuf>,
    /// The Kubernetes API server that reviews tokens; `None` refuses tokens.
    pub token_review: Option<ApiServer>,
    /// Rules for users that the system, MUNGE or Kubernetes attests.
    pub users: UserRules,
}

/// The witnesses of callers without a certificate.
pub(super) struct Witnesses {
    munge: Option<Munge>,
    tokens: Option<TokenReviews>,
    users: UserRules,
    host: Host,
    questions: Arc<Semaphore>,
}

impl Witnesses {
    pub(super) fn new(attestation: Attestation) -> Arc<Self> {
        let unknown = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        let unknown = unknown.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(NOBODY);
        Arc::new(Self {
            munge: attestation.munge.as_deref().map(Munge::at),
            tokens: attestation.token_review.map(TokenReviews::new),
            users: attestation.users,
            host: Host { uid: geteuid().as_raw(), unknown },
            questions: Arc::new(Semaphore::new(QUESTIONS_MAX)),
        })
    }

    /// Whether callers by TCP may present a credential in place of a certificate.
    pub(super) fn takes_credentials(&self) -> bool {
        self.munge.is_some() || self.tokens.is_some()
    }

    /// Identifies a process on the UNIX socket by its `uid`, which the system reports. Informs the process whether it
    /// is accepted.
    pub(super) async fn by_system(&self, stream: &mut Stream, uid: u32) -> Result<Caller> {
        let found = self.ask(move || Ok(attested(uid, Witness::System))).await;
        let taken = found.and_then(|found| self.roles(&found));
        self.answer(stream, taken).await
    }

    /// Identifies a process that has connected by TCP without a certificate, by its credential.
    pub(super) async fn by_credential(&self, stream: &mut Stream) -> Result<Caller> {
        if !self.takes_credentials() {
            return Err(refused("it showed no certificate"));
        }
        let broken = |error: std::io::Error| refused(format!("it broke the handshake off: {error}"));
        // A session key is as random as a nonce must be, and is used once.
        let nonce: [u8; NONCE_LEN] = new_session_key()?.0;
        stream.write_all(&nonce).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let len: usize = stream.read_u16_le().await.map_err(broken)?.into();
        if len > CREDENTIAL_MAX {
            return self.answer(stream, Err(refused("the credential is too long"))).await;
        }
        let mut credential = vec![0; len];
        stream.read_exact(&mut credential).await.map_err(broken)?;
        let taken = match token::of_credential(&credential) {
            Ok(Some(token)) => self.by_token(token).await,
            Ok(None) => self.by_munge(nonce, credential).await,
            Err(error) => Err(error),
        };
        self.answer(stream, taken).await
    }

    async fn by_token(&self, token: &str) -> Result<Vec<Role>> {
        let none = || {
            refused("this coordinator takes no tokens of Kubernetes")
                .remedy("show a certificate (ACCORD_TLS), or start it with --token-review")
        };
        let user = self.tokens.as_ref().ok_or_else(none)?.user_of(token).await?;
        let role = attest::role_of_service_account(&user, &self.users)?;
        tracing::info!("{role} is user {user} by the word of Kubernetes");
        Ok(vec![role])
    }

    async fn by_munge(&self, nonce: [u8; NONCE_LEN], credential: Vec<u8>) -> Result<Vec<Role>> {
        let none = || {
            refused("this coordinator does not take MUNGE's word")
                .remedy("name a file with a token in ACCORD_TOKEN_FILE, or show a certificate (ACCORD_TLS)")
        };
        let munge = self.munge.clone().ok_or_else(none)?;
        let question = move || {
            let believed = munge.decode(&credential)?;
            if believed.payload != attest::payload(&nonce) {
                let cause = format!("user {} has a credential that was made for something else", believed.uid);
                return Err(refused(cause).remedy("connect again, with libacc and accord of the coordinator's version"));
            }
            Ok(attested(believed.uid, Witness::Munge))
        };
        self.roles(&self.ask(question).await?)
    }

    fn roles(&self, attested: &Attested) -> Result<Vec<Role>> {
        let roles = attest::roles(attested, &self.users, self.host)?;
        tracing::info!("{} is user {} by the word of {}", called(&roles), attested.uid, attested.witness);
        Ok(roles)
    }

    async fn ask(&self, question: impl FnOnce() -> Result<Attested> + Send + 'static) -> Result<Attested> {
        let turn = self.questions.clone().acquire_owned().await;
        let turn = turn.map_err(|_| refused("its user could not be asked for"))?;
        on_thread("accord-witness", turn, question).await?
    }

    async fn answer(&self, stream: &mut Stream, taken: Result<Vec<Role>>) -> Result<Caller> {
        let bytes = taken.as_ref().map_or_else(attest::refusal, |_| vec![attest::TAKEN]);
        let broken = |error: std::io::Error| refused(format!("it broke the handshake off: {error}"));
        stream.write_all(&bytes).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        match taken {
            Ok(roles) => Ok(Caller { roles, address: None, refused: None }),
            Err(error) => {
                tracing::warn!("refused: {}", error.cause());
                // The peer reads the refusal before the end of the connection.
                let _ = stream.shutdown().await;
                Err(error)
            }
        }
    }
}

fn attested(uid: u32, witness: Witness) -> Attested {
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    Attested { uid, name, witness }
}

fn called(roles: &[Role]) -> String {
    roles.first().map_or_else(String::new, Role::to_string)
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}
