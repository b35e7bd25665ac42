//! Invitations: the text by which a new node or user obtains its certificate.

use crate::lane::{LaneSeeds, SEED_LEN};
use crate::name::{PeerName, Role};
use crate::provider::provider;
use accord_types::{Error, ErrorCode, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::str::FromStr;

/// Bytes of a code, enough that it can't be guessed.
const CODE_LEN: usize = 16;
/// Letters of a code, without letters that look alike.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BITS_A_LETTER: u32 = 5;
/// Longest name of a host, in bytes.
const HOST_MAX: usize = 253;
/// Letters of 128 bits.
const CODE_LETTERS: usize = 26;

/// The secret of an invitation. Both ends derive the keys of their connection from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; CODE_LEN]);

impl Code {
    /// Draws a code from the system's random bytes.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the operating system provides no random bytes.
    pub fn random() -> Result<Self> {
        let mut code = [0; CODE_LEN];
        let filled = provider().secure_random.fill(&mut code);
        filled.map_err(|_| Error::new(ErrorCode::System, "the system provides no random bytes"))?;
        Ok(Self(code))
    }

    /// Returns the seeds of both ends' keys for a connection that begins with `hello`.
    pub(super) fn seeds(&self, hello: &[u8]) -> LaneSeeds {
        LaneSeeds { client: self.seed(b"accord join client", hello), server: self.seed(b"accord join server", hello) }
    }

    fn seed(&self, end: &[u8], hello: &[u8]) -> [u8; SEED_LEN] {
        // HMAC accepts keys of any length, so the error can't happen.
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(end);
        mac.update(hello);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bits = u128::from_be_bytes(self.0);
        let mut letters = [0; CODE_LETTERS];
        for letter in letters.iter_mut().rev() {
            *letter = LETTERS[(bits & 31) as usize];
            bits >>= BITS_A_LETTER;
        }
        letters.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let none =
            || format!("a code has {CODE_LETTERS} letters and digits, without i, l, o and u; copy the whole line");
        if text.len() != CODE_LETTERS {
            return Err(none());
        }
        let mut bits: u128 = 0;
        for letter in text.bytes() {
            let value = LETTERS.iter().position(|known| *known == letter.to_ascii_lowercase()).ok_or_else(none)?;
            // Only three bits of the first letter are used.
            if bits >> (u128::BITS - BITS_A_LETTER) != 0 {
                return Err(none());
            }
            bits = bits << BITS_A_LETTER | value as u128;
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

/// An invitation: the address, the role and the code for a certificate. As text `HOST:PORT/node/NAME/CODE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// `host:port` of the server that issues the certificate.
    pub server: String,
    /// The role of the certificate's holder: an agent, a tenant or an administrator.
    pub role: Role,
    /// The secret.
    pub code: Code,
}

/// Returns the words that stand for a role in an invitation.
fn words(role: &Role) -> Option<(&'static str, &str)> {
    match role {
        Role::Agent(name) => Some(("node", name)),
        Role::Tenant(name) => Some(("user", name)),
        Role::Admin(name) => Some(("admin", name)),
        Role::Authority | Role::Coordinator => None,
    }
}

impl Invitation {
    /// Returns the invitation's text without the code, fit for messages that other users of the machine can read.
    pub fn open_part(&self) -> String {
        let (kind, name) = words(&self.role).unwrap_or_default();
        format!("{}/{kind}/{name}", self.server)
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.open_part(), self.code)
    }
}

impl FromStr for Invitation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let none =
            || "an invitation is HOST:PORT/node/NAME/CODE; copy the whole line that the server has printed".to_owned();
        let [server, kind, name, code] = text.split('/').collect::<Vec<_>>()[..] else { return Err(none()) };
        let role = role_of(kind, name).filter(|_| is_address(server)).ok_or_else(none)?;
        Ok(Self { server: server.to_owned(), role, code: code.parse()? })
    }
}

/// Whether the text is `host:port`, with an IPv6 address in brackets. It then has no letter that a shell or a settings
/// file interprets.
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => {
            let fine = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
            host.contains(':') && host.len() <= HOST_MAX && host.bytes().all(fine)
        }
        None => {
            let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            (1..=HOST_MAX).contains(&host.len()) && !host.starts_with('-') && host.bytes().all(fine)
        }
    };
    is_host && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns the role that the words stand for.
pub(super) fn role_of(kind: &str, name: &str) -> Option<Role> {
    let role = match kind {
        "node" => Role::Agent(name.to_owned()),
        "user" => Role::Tenant(name.to_owned()),
        "admin" => Role::Admin(name.to_owned()),
        _ => return None,
    };
    let is_name = crate::name::word(name).is_ok() && names_itself(&role);
    is_name.then_some(role)
}

/// Whether the role survives the round trip through a certificate's name.
fn names_itself(role: &Role) -> bool {
    let name = PeerName { cluster: "c".to_owned(), role: role.clone() };
    name.to_string().parse().as_ref() == Ok(&name)
}

/// Returns the first line of a client, which requests the certificate of a role.
pub(super) fn hello(role: &Role) -> Option<String> {
    words(role).map(|(kind, name)| format!("accord join 1 {kind} {name}\n"))
}

/// Returns the role that a client's first line requests.
pub(super) fn asked(line: &str) -> Option<Role> {
    let (kind, name) = line.strip_suffix('\n')?.strip_prefix("accord join 1 ")?.split_once(' ')?;
    role_of(kind, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        for role in [Role::Agent("n1.site".into()), Role::Tenant("eva@x".into()), Role::Admin("op".into())] {
            let code = Code::random().unwrap();
            let invitation = Invitation { server: "server.site:7449".into(), role: role.clone(), code };
            let text = invitation.to_string();
            assert_eq!(text.parse(), Ok(invitation), "{text}");
            assert_eq!(asked(&hello(&role).unwrap()), Some(role));
        }
        let all_set = Code([0xff; CODE_LEN]);
        assert_eq!(all_set.to_string().parse(), Ok(all_set.clone()));
        assert_eq!(all_set.to_string().to_uppercase().parse(), Ok(all_set));
    }

    #[test]
    fn addresses_have_no_letter_that_a_shell_or_a_file_of_settings_reads() {
        for text in ["server:7447", "a.b_c-d:1", "10.0.0.1:65535", "[::1]:7447", "[fe80::1]:7447"] {
            assert!(is_address(text), "{text}");
        }
        for text in [
            "server",
            ":7447",
            "server:",
            "server:0",
            "server:+1",
            "server:65536",
            "::1:7447",
            "[]:1",
            "[x]:1",
            "-x:1",
            "a b:1",
            "a:1\nLD_PRELOAD=/x",
            "a\nB=c:1",
            "$(id):1",
            "a;b:1",
            "a'b:1",
            "a\\:1",
        ] {
            assert!(!is_address(text), "{text:?}");
        }
    }

    #[test]
    fn malformed_invitations_are_refused() {
        let code = Code::random().unwrap().to_string();
        for text in [
            String::new(),
            code.clone(),
            format!("h:7449/node/{code}"),
            format!("h/node/n1/{code}"),
            format!(":1/node/n1/{code}"),
            format!("h:99999/node/n1/{code}"),
            format!("h:7449/coordinator/n1/{code}"),
            format!("h:7449/node/*/{code}"),
            format!("h:7449/node/n 1/{code}"),
            format!("h:7449/node/n1/{code}0"),
            format!("h:7449/node/n1/{}", &code[1..]),
            format!("h:7449/node/n1/z{}", &code[1..]),
            format!("h:7449/node/n1/u{}", &code[1..]),
        ] {
            assert!(text.parse::<Invitation>().is_err(), "{text}");
        }
        for line in ["accord join 1 node n1", "accord join 2 node n1\n", "accord join 1 node \n", "\n"] {
            assert_eq!(asked(line), None, "{line:?}");
        }
    }
}
