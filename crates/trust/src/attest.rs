//! Identifies callers without a certificate. The operating system, MUNGE or Kubernetes attests the user; the caller's
//! own claim is never used. Here are the user's roles and the messages of the exchange.
//!
//! ```text
//! by the system, on a UNIX socket      by MUNGE or a token, in TLS where only the coordinator has shown a certificate
//!   -> which protocol is spoken          <- NONCE_LEN bytes
//!   <- the answer                        -> a credential of MUNGE that says [`payload`] of these, or a token
//!                                        <- the answer
//! ```
//!
//! The nonce binds a MUNGE credential to one connection. A token ([`crate::token`]) is valid until it expires. Both are
//! sent only to a coordinator that has proved its identity.

use crate::name::{ANY_NODE, Role, word};
use crate::users::UserRules;
use accord_types::{Error, ErrorCode, Result};
use std::fmt;

/// Length of the nonce that the coordinator sends for a credential.
pub const NONCE_LEN: usize = 32;
/// Longest name of a protocol, in bytes.
pub const PROTOCOL_MAX: usize = 64;
/// Longest refusal, in bytes.
pub const REFUSAL_MAX: usize = 1 << 10;
/// The answer that accepts a caller.
pub const TAKEN: u8 = 0;
/// The first byte of a refusal.
const REFUSED: u8 = 1;
/// The first byte of a refusal by a coordinator whose witness can't be asked now: a later attempt may succeed.
pub const LATER: u8 = 2;
/// The kernel's default overflow uid: the system reports it for a process whose user has no number in this user
/// namespace.
pub const NOBODY: u32 = 65_534;

/// The source of an attestation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Witness {
    /// The operating system of this machine.
    System,
    /// MUNGE.
    Munge,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "the system",
            Self::Munge => "MUNGE",
        })
    }
}

/// A user that a witness has attested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attested {
    /// The user's number, as the witness reports it.
    pub uid: u32,
    /// The user's name in this machine's database; `None` if it has none.
    pub name: Option<String>,
    /// The witness.
    pub witness: Witness,
}

/// The coordinator's process, which accepts or refuses attested users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The user that the coordinator runs as.
    pub uid: u32,
    /// The overflow uid of this system: the number of a user who is not mapped in this user namespace.
    pub unknown: u32,
}

/// Returns the roles of an attested user; messages name the first. MUNGE attests users of other machines, so it grants
/// no roles of the host. On the coordinator's machine, root and the coordinator's own user also have the roles of an
/// agent and an administrator, because they could read its keys anyway.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the system can't identify the user, or the rules refuse the user.
pub fn roles(attested: &Attested, rules: &UserRules, host: Host) -> Result<Vec<Role>> {
    if attested.witness == Witness::System && attested.uid == host.unknown && attested.uid != host.uid {
        return Err(refused(
            "the system can't say whose process this is: the coordinator is in a namespace of users, or the program is user nobody's",
        )
        .remedy("run the coordinator outside of such a namespace (systemd: PrivateUsers=no), or use certificates"));
    }
    let number = attested.uid.to_string();
    // A name that no certificate could hold is replaced by the user's number.
    let name = attested.name.as_deref().filter(|name| word(name).is_ok()).unwrap_or(&number);
    let called = served(name, rules)?;
    let mut roles = vec![tenant(name, called)?];
    if attested.witness == Witness::System && (attested.uid == 0 || attested.uid == host.uid) {
        roles.extend([Role::Agent(ANY_NODE.to_owned()), Role::Admin(called.to_owned())]);
    }
    Ok(roles)
}

/// Returns the role of a Kubernetes service account, whose user name the API server has reported.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the rules refuse the user.
pub fn role_of_service_account(user: &str, rules: &UserRules) -> Result<Role> {
    match served(user, rules)? {
        same if same == user => Ok(Role::Tenant(user.to_owned())),
        other => tenant(user, other),
    }
}

/// Returns the cluster user that the rules map `user` to.
fn served<'a>(user: &'a str, rules: &'a UserRules) -> Result<&'a str> {
    let served = rules.account_of(user).map(|(called, _)| called);
    served.ok_or_else(|| {
        refused(format!("this coordinator does not take user {user}")).remedy("ask who runs it, or change its --users")
    })
}

fn tenant(user: &str, called: &str) -> Result<Role> {
    let called = word(called).map_err(|why| refused(format!("user {user}: {why}")).remedy("correct --users"))?;
    Ok(Role::Tenant(called))
}

/// Returns the payload of a valid credential for a connection with this nonce.
pub fn payload(nonce: &[u8; NONCE_LEN]) -> Vec<u8> {
    let digits: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("accord coordinator {digits}").into_bytes()
}

/// Returns the encoded credential: its length in two bytes, then its bytes.
pub fn encode_credential(credential: &[u8]) -> Vec<u8> {
    // An empty credential stands for one that is too long; the coordinator refuses it.
    let len = u16::try_from(credential.len()).unwrap_or(0);
    [&len.to_le_bytes()[..], credential].concat()
}

/// Returns the encoded refusal: a byte, the length of the text, and the text. The byte is [`LATER`] for an
/// `acc_error_system`.
pub fn refusal(error: &Error) -> Vec<u8> {
    let mut words = match error.remedy_text() {
        Some(remedy) => format!("{}; {remedy}", error.cause()),
        None => error.cause().to_owned(),
    };
    while words.len() > REFUSAL_MAX {
        words.pop();
    }
    let len = u16::try_from(words.len()).unwrap_or(0).to_le_bytes();
    let verdict = if error.code() == ErrorCode::System { LATER } else { REFUSED };
    [&[verdict], &len[..], words.as_bytes()].concat()
}

/// Returns the length of a refusal's text from the two bytes after its first byte.
pub fn words_len(len: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(len)).min(REFUSAL_MAX)
}

/// Returns the text of a refusal without control characters, which a terminal would interpret.
pub fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).collect()
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Act, may};

    const HOST: Host = Host { uid: 900, unknown: NOBODY };

    fn of(uid: u32, name: Option<&str>, witness: Witness, rules: &str) -> Result<Vec<Role>> {
        let attested = Attested { uid, name: name.map(str::to_owned), witness };
        roles(&attested, &rules.parse().unwrap(), HOST)
    }

    fn may_any(roles: &[Role], act: Act) -> bool {
        roles.iter().any(|role| may(role, act))
    }

    #[test]
    fn a_user_is_a_tenant_and_no_more() {
        for witness in [Witness::System, Witness::Munge] {
            let alice = of(1000, Some("alice"), witness, "*").unwrap();
            assert_eq!(alice, [Role::Tenant("alice".into())]);
            assert!(may_any(&alice, Act::OpenSession) && may_any(&alice, Act::Describe));
            for act in [Act::Coordinate, Act::Register, Act::DrainNode, Act::CloseSession, Act::Shutdown] {
                assert!(!may_any(&alice, act), "{act}");
            }
            assert_eq!(of(1000, None, witness, "*").unwrap(), [Role::Tenant("1000".into())]);
            assert_eq!(of(1000, Some("DOMAIN\\alice"), witness, "*").unwrap(), [Role::Tenant("1000".into())]);
        }
    }

    #[test]
    fn only_the_own_machines_root_and_own_user_are_more() {
        for uid in [0, HOST.uid] {
            let here = of(uid, Some("x"), Witness::System, "*").unwrap();
            for act in [Act::OpenSession, Act::Register, Act::Shutdown] {
                assert!(may_any(&here, act), "{uid} {act}");
            }
            assert!(!may_any(&here, Act::Coordinate));
            // Root of another machine has no more rights here than any user.
            assert_eq!(of(uid, Some("x"), Witness::Munge, "*").unwrap(), [Role::Tenant("x".into())]);
        }
    }

    #[test]
    fn rules_map_and_refuse() {
        let rules = "!bob, alice=grid, eva";
        assert_eq!(of(1, Some("alice"), Witness::Munge, rules).unwrap(), [Role::Tenant("grid".into())]);
        assert_eq!(of(2, Some("eva"), Witness::Munge, rules).unwrap(), [Role::Tenant("eva".into())]);
        for name in ["bob", "mallory"] {
            let error = of(3, Some(name), Witness::System, rules).unwrap_err();
            assert!(error.cause().contains(&format!("does not take user {name}")), "{error}");
        }
        assert!(of(1, Some("a"), Witness::Munge, "a=1:2").is_err());
    }

    #[test]
    fn a_service_account_is_a_tenant_by_its_own_name_or_as_the_rules_say() {
        const TRAIN: &str = "system:serviceaccount:physics:train";
        let role = |rules: &str| role_of_service_account(TRAIN, &rules.parse().unwrap());
        assert_eq!(role("*").unwrap(), Role::Tenant(TRAIN.into()));
        assert_eq!(role(&format!("{TRAIN}=grid,*")).unwrap(), Role::Tenant("grid".into()));
        assert!(role(&format!("!{TRAIN},*")).unwrap_err().cause().contains("does not take user"));
        // Neither MUNGE nor rules nor certificates can produce the name of a service account.
        assert!(role(&format!("{TRAIN}=system:serviceaccount:physics:other")).is_err());
        assert_eq!(of(7, Some(TRAIN), Witness::Munge, "*").unwrap(), [Role::Tenant("7".into())]);
        assert!(format!("accord://c/tenant/{TRAIN}").parse::<crate::PeerName>().is_err());
    }

    #[test]
    fn unmapped_user_is_the_overflow_user() {
        assert!(of(NOBODY, Some("nobody"), Witness::System, "*").unwrap_err().cause().contains("namespace of users"));
        // MUNGE reports numbers that no user namespace of this machine has mapped.
        assert!(of(NOBODY, Some("nobody"), Witness::Munge, "*").is_ok());
    }

    #[test]
    fn a_refusal_comes_back_in_words() {
        let long = "x".repeat(5 * REFUSAL_MAX);
        for cause in ["no", &long, "line\nbreak"] {
            let printed = refusal(&refused(cause).remedy("do"));
            assert_eq!(printed[0], REFUSED);
            assert_eq!(refusal(&Error::new(ErrorCode::System, cause))[0], LATER);
            let len = words_len([printed[1], printed[2]]);
            assert_eq!(len, printed.len() - 3);
            let reported = words(&printed[3..]);
            assert!(reported.starts_with(&cause.replace('\n', "")[..2]) && !reported.contains('\n'), "{reported}");
        }
    }

    #[test]
    fn a_payload_names_the_connection() {
        assert_ne!(payload(&[1; NONCE_LEN]), payload(&[2; NONCE_LEN]));
        assert!(payload(&[0xab; NONCE_LEN]).ends_with(b"abab"));
    }
}
