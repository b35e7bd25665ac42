//! Hands out certificates while `accord setup server` or `admit` runs.

use super::member::{Source, check_node, make_node, make_user};
use super::site::{FOLDER, check_root, host_name, lock};
use super::steps::Steps;
use super::{files, serve::JoinServer};
use crate::command::pki::{days_left, lifetime};
use crate::failure::{Failure, Result};
use crate::output::show;
use crate::setup_args::{AdmitArgs, COORDINATOR_PORT};
use accord_trust::Role;
use accord_trust::issue::Authority;
use accord_trust::join::{Code, Invitation, Issuer, Open, is_address};
use accord_trust::register::issued;
use nix::unistd::{Uid, User};
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The exit code if some invitations were not used.
const LEFT: u8 = 1;

/// Holders of certificates to issue, checked before anything is changed.
pub(super) struct Admission {
    /// This machine's node and root, which need no invitation.
    here: Vec<Role>,
    invitations: Vec<Invitation>,
    /// Present if there are invitations.
    listener: Option<TcpListener>,
    coordinator: String,
    /// The roles that have a certificate already, in words.
    had: Vec<String>,
}

/// Runs `accord setup admit`.
pub(super) fn command(args: &AdmitArgs) -> Result<u8> {
    check_root("accord setup admit", false)?;
    if roles(args).is_empty() {
        return Err(Failure::usage("name whom to admit: --node, --user or --admin"));
    }
    let authority = Authority::read(&args.authority)?;
    let admission = Admission::new(args, true, false)?;
    let issuer = admission.issuer(authority, args);
    if !admission.here.is_empty() {
        let mut steps = Steps::new(false);
        files::folder(&mut steps, Path::new(FOLDER), 0o755, None)?;
        let _lock = lock()?;
        admission.make_here(&mut steps, Some(&issuer), true)?;
    }
    admission.serve(issuer, args)
}

fn roles(args: &AdmitArgs) -> Vec<Role> {
    let nodes = args.nodes.iter().cloned().map(Role::Agent);
    let users = args.users.iter().cloned().map(Role::Tenant);
    let mut roles: Vec<Role> = nodes.chain(users).chain(args.admins.iter().cloned().map(Role::Admin)).collect();
    let mut seen = HashSet::new();
    roles.retain(|role| seen.insert(role.clone()));
    roles
}

/// Returns the host and the coordinator's address of an `--address`.
fn addresses(address: &str) -> Option<(String, String)> {
    let with_port = |host: String| {
        let coordinator = format!("{host}:{COORDINATOR_PORT}");
        is_address(&coordinator).then_some((host, coordinator))
    };
    if address.parse::<Ipv6Addr>().is_ok() {
        return with_port(format!("[{address}]"));
    }
    match address.rsplit_once(':').filter(|_| is_address(address)) {
        Some((host, _)) => Some((host.to_owned(), address.to_owned())),
        None => with_port(address.to_owned()),
    }
}

impl Admission {
    /// Checks the roles of the arguments: all with `again`, otherwise those without a valid certificate.
    pub(super) fn new(args: &AdmitArgs, again: bool, is_dry: bool) -> Result<Self> {
        let address = args.address.clone().map_or_else(host_name, Ok)?;
        let (host, coordinator) = addresses(&address).ok_or_else(|| {
            Failure::usage(format!("{address:?} is no HOST or HOST:PORT; name this machine with --address"))
        })?;
        let known = if again { Vec::new() } else { issued(&args.authority)? };
        let name = host_name()?;
        let mut admission =
            Self { here: Vec::new(), invitations: Vec::new(), listener: None, coordinator, had: Vec::new() };
        for role in roles(args) {
            let invitation =
                Invitation { server: format!("{host}:{}", args.join_port), role: role.clone(), code: Code::random()? };
            // The invited side parses the text again.
            invitation.to_string().parse::<Invitation>().map_err(|_| {
                Failure::usage(format!("{role} can't be named in a certificate: use letters, digits and . _ - @"))
            })?;
            let days = known.iter().find(|(name, _)| name.role == role).map(|(_, expiry)| days_left(*expiry));
            match (&role, days) {
                (Role::Agent(node), _) if *node == name => {
                    check_node()?;
                    admission.here.push(role);
                }
                (Role::Tenant(user) | Role::Admin(user), _) if user == "root" => admission.here.push(role),
                (_, Some(days @ 0..)) => admission
                    .had
                    .push(format!("certificate of {role}: {days} days left (accord setup admit gives another)")),
                _ => admission.invitations.push(invitation),
            }
        }
        if !admission.invitations.is_empty() && !is_dry {
            admission.listener = Some(listen(args.join_port)?);
        }
        Ok(admission)
    }

    pub(super) fn has_invitations(&self) -> bool {
        !self.invitations.is_empty()
    }

    /// Returns the issuer of the certificates.
    pub(super) fn issuer(&self, authority: Authority, args: &AdmitArgs) -> Issuer {
        Issuer { authority, lifetime: lifetime(args.days), coordinator: self.coordinator.clone() }
    }

    /// Creates certificates for this machine's node and for root. `issuer` is `None` in a dry run that would create the
    /// authority.
    pub(super) fn make_here(&self, steps: &mut Steps, issuer: Option<&Issuer>, renew: bool) -> Result<()> {
        for role in &self.here {
            if matches!(role, Role::Agent(_)) {
                make_node(steps, role, Source::Here(issuer), &[], renew)?;
            } else {
                // HOME may belong to the user who became root.
                let root = User::from_uid(Uid::from_raw(0)).ok().flatten();
                let home = root.ok_or_else(|| Failure::new("root has no account on this machine"))?.dir;
                make_user(steps, role, Source::Here(issuer), &home.join(".config/accord/tls"), false, renew)?;
            }
        }
        Ok(())
    }

    /// Prints the roles with a certificate, and in a dry run those that would get an invitation.
    pub(super) fn print(&self, steps: &mut Steps) -> Result<()> {
        for had in &self.had {
            steps.step(had, true, || Ok(()))?;
        }
        if steps.is_dry() {
            for invitation in &self.invitations {
                steps.step(format!("an invitation for {}", invitation.role), false, || Ok(()))?;
            }
        }
        Ok(())
    }

    /// Prints the invitations, and serves them until all are used or the time is over.
    pub(super) fn serve(self, issuer: Issuer, args: &AdmitArgs) -> Result<u8> {
        let Some(listener) = self.listener else { return Ok(0) };
        show(&format!("Each line counts once, within {} minutes, while this command runs:\n", args.minutes));
        for invitation in &self.invitations {
            show(&line(invitation));
        }
        let server = JoinServer { listener, open: Arc::new(Open::new(self.invitations)), issuer: Arc::new(issuer) };
        let left = server.serve(Instant::now() + Duration::from_secs(60 * u64::from(args.minutes)));
        if left.is_empty() {
            return Ok(0);
        }
        let names: Vec<String> = left.iter().map(ToString::to_string).collect();
        show(&format!("the time is over; not used: {}; accord setup admit prints new lines\n", names.join(", ")));
        Ok(LEFT)
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    // Both address families, if the machine has both.
    let bound =
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
    let listener = bound
        .map_err(|error| Failure::new(format!("can't listen on port {port}: {error}; choose another --join-port")))?;
    listener.set_nonblocking(true).map_err(|error| Failure::system("can't listen", error))?;
    Ok(listener)
}

/// Returns the line for the invited user. The code is separate, because other users see a program's arguments.
fn line(invitation: &Invitation) -> String {
    let (holder, command) = match &invitation.role {
        Role::Agent(name) => (format!("on {name}, as root"), "node"),
        role => (format!("as {role}"), "user"),
    };
    format!(
        "  {holder}:  accord setup {command} {}\n      it asks for the code {}\n",
        invitation.open_part(),
        invitation.code
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_or_without_a_port() {
        let of = |address| addresses(address).map(|(host, coordinator)| format!("{host} {coordinator}"));
        assert_eq!(of("server").as_deref(), Some("server server:7447"));
        assert_eq!(of("server:7500").as_deref(), Some("server server:7500"));
        assert_eq!(of("::1").as_deref(), Some("[::1] [::1]:7447"));
        assert_eq!(of("[::1]").as_deref(), Some("[::1] [::1]:7447"));
        assert_eq!(of("[::1]:7500").as_deref(), Some("[::1] [::1]:7500"));
        for bad in ["", ":7500", "server:x", "a b", "server/x", "http://server"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
