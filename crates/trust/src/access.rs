//! Decides which role may perform which act. No other module decides this; docs/design/trust.md has the same table.

use crate::name::{ANY_NODE, PeerName, Role};
use accord_types::{Error, ErrorCode, Result};
use std::fmt;

/// An operation that a caller requests of a peer, or a role that the caller claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Act as the cluster's coordinator.
    Coordinate,
    /// Offer a node's devices.
    Register,
    /// Open sessions.
    OpenSession,
    /// See nodes, devices and sessions.
    Describe,
    /// Keep new sessions off a node.
    DrainNode,
    /// End a session.
    CloseSession,
    /// Stop the coordinator and the agents.
    Shutdown,
    /// List jobs: one's own, and those of other users as the policy allows.
    SeeJobs,
    /// Withdraw, hold, release, suspend, resume and end one's own jobs.
    ChangeOwnJobs,
    /// Change and list every job.
    ChangeAllJobs,
    /// Pause all job starts.
    PauseJobs,
    /// Put a policy into effect.
    ApplyPolicy,
    /// Make and remove reservations.
    ChangeReservations,
}

impl Act {
    /// Every act.
    pub const ALL: [Self; 13] = [
        Self::Coordinate,
        Self::Register,
        Self::OpenSession,
        Self::Describe,
        Self::DrainNode,
        Self::CloseSession,
        Self::Shutdown,
        Self::SeeJobs,
        Self::ChangeOwnJobs,
        Self::ChangeAllJobs,
        Self::PauseJobs,
        Self::ApplyPolicy,
        Self::ChangeReservations,
    ];

    /// Returns the roles that may perform the act, for messages.
    fn holder(self) -> &'static str {
        match self {
            Self::Coordinate => "coordinator",
            Self::Register => "agent",
            Self::OpenSession => "tenant",
            Self::Describe | Self::SeeJobs | Self::ChangeOwnJobs => "tenant or admin",
            Self::DrainNode
            | Self::CloseSession
            | Self::Shutdown
            | Self::ChangeAllJobs
            | Self::PauseJobs
            | Self::ApplyPolicy
            | Self::ChangeReservations => "admin",
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coordinate => "be the coordinator",
            Self::Register => "register a node",
            Self::OpenSession => "open sessions",
            Self::Describe => "look at the cluster",
            Self::DrainNode => "drain nodes or put devices into quarantine",
            Self::CloseSession => "end sessions",
            Self::Shutdown => "stop the cluster",
            Self::SeeJobs => "see jobs",
            Self::ChangeOwnJobs => "change its own jobs",
            Self::ChangeAllJobs => "change the jobs of all users",
            Self::PauseJobs => "pause all starts",
            Self::ApplyPolicy => "apply a policy",
            Self::ChangeReservations => "make and remove reservations",
        })
    }
}

/// Whether `role` may perform `act`.
pub fn may(role: &Role, act: Act) -> bool {
    match role {
        Role::Authority => false,
        Role::Coordinator => act == Act::Coordinate,
        Role::Agent(_) => act == Act::Register,
        Role::Tenant(_) => matches!(act, Act::OpenSession | Act::Describe | Act::SeeJobs | Act::ChangeOwnJobs),
        Role::Admin(_) => !matches!(act, Act::Coordinate | Act::Register | Act::OpenSession),
    }
}

/// Refuses an act that [`may`] does not allow to the peer's role.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the role may not perform the act. The message names the roles that may.
pub fn check(peer: &PeerName, act: Act) -> Result<()> {
    check_roles(std::slice::from_ref(&peer.role), act).map(drop)
}

/// Returns the first of a peer's roles that may perform the act.
///
/// # Errors
/// Returns the errors of [`check`] if no role may.
pub fn check_roles(roles: &[Role], act: Act) -> Result<&Role> {
    roles.iter().find(|role| may(role, act)).ok_or_else(|| {
        let who = roles.first().map_or_else(|| "a peer without a role".to_owned(), Role::to_string);
        Error::new(ErrorCode::DeviceUnavailable, format!("{who} may not {act}"))
            .remedy(format!("use the certificate of a role that may: {} (accord pki issue)", act.holder()))
    })
}

/// Refuses an agent that registers another node than its certificate names.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the certificate is for another node, or the errors of [`check`].
pub fn check_node(roles: &[Role], node: &str) -> Result<()> {
    match check_roles(roles, Act::Register)? {
        Role::Agent(own) if own == node || own == ANY_NODE => Ok(()),
        role => Err(Error::new(ErrorCode::DeviceUnavailable, format!("{role} may not register node {node}"))
            .remedy(format!("issue a certificate for it (accord pki issue agent {node}), or correct --node"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/design/trust.md.
    const TABLE: &str = include_str!("../../../docs/design/trust.md");

    fn role(kind: &str) -> Role {
        match kind {
            "coordinator" => Role::Coordinator,
            "agent" => Role::Agent("h1".into()),
            "tenant" => Role::Tenant("eva".into()),
            "admin" => Role::Admin("root".into()),
            _ => panic!("{kind}"),
        }
    }

    #[test]
    fn everybody_may_what_the_table_says_and_no_more() {
        let kinds = ["coordinator", "agent", "tenant", "admin"];
        for act in Act::ALL {
            let row = TABLE.lines().find(|line| line.starts_with(&format!("| {act} |")));
            let cells: Vec<&str> = row.unwrap_or_else(|| panic!("no row {act}")).split('|').skip(2).collect();
            for (kind, cell) in kinds.iter().zip(cells) {
                assert_eq!(may(&role(kind), act), cell.trim() == "yes", "{kind}: {act}");
                assert!(matches!(cell.trim(), "yes" | ""), "{kind}: {act}: {cell}");
            }
            assert!(!may(&Role::Authority, act));
        }
    }

    #[test]
    fn a_refusal_names_role_act_and_remedy() {
        let agent = PeerName { cluster: "c".into(), role: role("agent") };
        let error = check(&agent, Act::DrainNode).unwrap_err().to_string();
        assert!(error.contains("agent h1 may not drain nodes") && error.contains("admin"), "{error}");
        let node = |peer: &PeerName, node: &str| check_node(std::slice::from_ref(&peer.role), node);
        assert!(node(&agent, "h1").is_ok());
        let error = node(&agent, "h2").unwrap_err().to_string();
        assert!(error.contains("agent h1 may not register node h2") && error.contains("pki issue agent h2"), "{error}");
        let any = PeerName { cluster: "c".into(), role: Role::Agent(ANY_NODE.into()) };
        assert!(node(&any, "h1").is_ok() && check(&any, Act::DrainNode).is_err());
        let tenant = PeerName { cluster: "c".into(), role: role("tenant") };
        assert!(node(&tenant, "eva").unwrap_err().cause().contains("may not register"));
    }
}
