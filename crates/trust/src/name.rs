//! The name in a certificate, a URI: `accord://CLUSTER/agent/NODE`.

use std::fmt;
use std::str::FromStr;

/// The scheme of every name.
const SCHEME: &str = "accord://";
/// Longest name of a cluster, node or user: that of a host.
const WORD_MAX: usize = 253;
/// The node of an agent that may register any node.
pub const ANY_NODE: &str = "*";

/// The role of a process in the cluster.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Only signs certificates.
    Authority,
    /// Numbers devices and opens sessions.
    Coordinator,
    /// Offers the devices of the node with this name; [`ANY_NODE`] allows any node.
    Agent(String),
    /// Runs programs for this user.
    Tenant(String),
    /// Administers the cluster.
    Admin(String),
}

/// The holder of a certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerName {
    /// The holder's cluster.
    pub cluster: String,
    /// The holder's role in the cluster.
    pub role: Role,
}

impl fmt::Display for Role {
    /// Writes the role for messages: `agent h1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority => f.write_str("certificate authority"),
            Self::Coordinator => f.write_str("coordinator"),
            Self::Agent(node) => write!(f, "agent {node}"),
            Self::Tenant(user) => write!(f, "tenant {user}"),
            Self::Admin(name) => write!(f, "admin {name}"),
        }
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/", self.cluster)?;
        match &self.role {
            Role::Authority => f.write_str("ca"),
            Role::Coordinator => f.write_str("coordinator"),
            Role::Agent(node) => write!(f, "agent/{node}"),
            Role::Tenant(user) => write!(f, "tenant/{user}"),
            Role::Admin(name) => write!(f, "admin/{name}"),
        }
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let none = || format!("{text:?} is no name of Accord's");
        let mut parts = text.strip_prefix(SCHEME).ok_or_else(none)?.split('/');
        let cluster = word(parts.next().unwrap_or_default())?;
        let (kind, name) = (parts.next().ok_or_else(none)?, parts.next());
        if parts.next().is_some() {
            return Err(none());
        }
        let role = match (kind, name) {
            ("ca", None) => Role::Authority,
            ("coordinator", None) => Role::Coordinator,
            ("agent", Some(ANY_NODE)) => Role::Agent(ANY_NODE.to_owned()),
            ("agent", Some(node)) => Role::Agent(word(node)?),
            ("tenant", Some(user)) => Role::Tenant(word(user)?),
            ("admin", Some(name)) => Role::Admin(word(name)?),
            _ => return Err(none()),
        };
        Ok(Self { cluster, role })
    }
}

/// Returns a valid name of a cluster, node or user. It needs no quoting in a URI, a path or a log.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn word(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    if text.is_empty() || text.len() > WORD_MAX || text.starts_with('.') || !text.chars().all(fine) {
        return Err(format!("{text:?} is no name: use up to {WORD_MAX} letters, digits and . _ - @"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_none() {
        for text in [
            "accord://c1/ca",
            "accord://c1/coordinator",
            "accord://c/agent/h1.site",
            "accord://c/agent/*",
            "accord://c/tenant/eva",
            "accord://c/admin/root@x",
        ] {
            assert_eq!(text.parse::<PeerName>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "http://c1/coordinator",
            "accord://c1",
            "accord://c1/",
            "accord:///coordinator",
            "accord://c1/agent",
            "accord://c1/agent/",
            "accord://c1/agent/h1/x",
            "accord://c1/agent/h 1",
            "accord://c1/coordinator/x",
            "accord://c1/root/x",
            "accord://c1/agent/h*",
            "accord://c1/tenant/..",
            "accord://c1/tenant/*",
            "Accord://c1/ca",
        ] {
            assert!(text.parse::<PeerName>().is_err(), "{text}");
        }
    }
}
