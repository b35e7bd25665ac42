//! Service accounts of Kubernetes as users of the cluster, named as by its API server:
//! `system:serviceaccount:NAMESPACE:NAME`. Users of certificates and of machines have no colon in their names, so they
//! never collide.

/// Prefix of each such name.
pub const PREFIX: &str = "system:serviceaccount:";
/// Most bytes of a namespace's name in Kubernetes.
const NAMESPACE_MAX: usize = 63;
/// Most bytes of a user's name, as in a certificate.
const USER_MAX: usize = 253;

/// Returns the namespace of a user who is a service account; `None` for other users.
pub fn namespace(user: &str) -> Option<&str> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_namespace = (1..=NAMESPACE_MAX).contains(&namespace.len()) && namespace.chars().all(fine);
    let is_name = !name.is_empty() && name.chars().all(|c| fine(c) || c == '.');
    (is_namespace && is_name && user.len() <= USER_MAX).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_that_of_a_service_account() {
        assert_eq!(namespace("system:serviceaccount:physics:train"), Some("physics"));
        assert_eq!(namespace("system:serviceaccount:a-1:default.x"), Some("a-1"));
        let long = format!("{PREFIX}{}:a", "n".repeat(NAMESPACE_MAX + 1));
        let longer = format!("{PREFIX}physics:{}", "n".repeat(USER_MAX));
        for user in [
            "",
            "eva",
            "system:node:n1",
            "system:serviceaccount:",
            "system:serviceaccount:physics",
            "system:serviceaccount:physics:",
            "system:serviceaccount::train",
            "system:serviceaccount:a.b:train",
            "system:serviceaccount:physics:train:x",
            "system:serviceaccount:physics:../x",
            "system:serviceaccount:Physics:train",
            &long,
            &longer,
        ] {
            assert_eq!(namespace(user), None, "{user:?}");
        }
    }
}
