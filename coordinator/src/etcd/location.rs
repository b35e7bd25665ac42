//! Where the state is in etcd, and the files by which etcd and the coordinator know each other.

use std::path::PathBuf;

/// Addresses that a location may have.
const MEMBERS_MAX: usize = 16;
const SCHEME: &str = "etcd://";
/// The prefix of a location that names none.
const PREFIX: &str = "accord";

/// Members of an etcd cluster, and the prefix of this cluster's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdLocation {
    /// `host:port` of each member.
    pub members: Vec<String>,
    /// The text before all keys, with a slash at both ends.
    pub prefix: String,
}

/// Files for TLS with etcd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdTls {
    /// The authority of etcd's certificates.
    pub authority: PathBuf,
    /// The coordinator's certificate and key, for an etcd that demands one.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl EtcdLocation {
    /// Reads `etcd://host:port[,host:port...][/prefix]`. Returns `None` if the text has another scheme.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        Some(Self::read(text.strip_prefix(SCHEME)?))
    }

    fn read(text: &str) -> Result<Self, String> {
        let (members, prefix) = text.split_once('/').unwrap_or((text, PREFIX));
        let prefix = prefix.trim_matches('/');
        let members: Vec<String> = members.split(',').map(str::to_owned).collect();
        let is_member = |member: &String| {
            member.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if members.len() > MEMBERS_MAX || !members.iter().all(is_member) || prefix.contains(|c: char| c.is_control()) {
            return Err(format!(
                "etcd://HOST:PORT[,HOST:PORT...][/PREFIX] is needed, with {MEMBERS_MAX} hosts at most"
            ));
        }
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        Ok(Self { members, prefix: format!("/{prefix}/") })
    }

    /// Returns the location as messages name it.
    pub(crate) fn displayed(&self) -> String {
        format!("{SCHEME}{}{}", self.members.join(","), self.prefix.trim_end_matches('/'))
    }

    /// Returns a key below the prefix.
    pub(crate) fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// Returns the key of which the leader's lease is the owner.
    pub(crate) fn leader_key(&self) -> Vec<u8> {
        self.key("leader")
    }
}

/// Returns the first key behind all keys that begin with `prefix`.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_members_and_a_prefix() {
        let of = |text: &str| EtcdLocation::parse(text).map(|read| read.map(|at| (at.members.join(" "), at.prefix)));
        let is = |members: &str, prefix: &str| Some(Ok((members.to_owned(), prefix.to_owned())));
        assert_eq!(of("etcd://a:2379"), is("a:2379", "/accord/"));
        assert_eq!(of("etcd://a:2379,[fd00::1]:2379/"), is("a:2379 [fd00::1]:2379", "/accord/"));
        assert_eq!(of("etcd://a:2379/sites/north/"), is("a:2379", "/sites/north/"));
        assert_eq!(of("/var/lib/accord/state"), None);
        for wrong in ["etcd://", "etcd://a", "etcd://a:b", "etcd://a:1,", "etcd://a:1/x\ny"] {
            assert!(of(wrong).unwrap().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_prefix_ends_before_the_next_sibling() {
        assert_eq!(end_of(b"/a/"), b"/a0");
        assert_eq!(end_of(&[b'a', 0xff]), b"b");
        assert_eq!(end_of(&[0xff]), [0]);
    }
}
