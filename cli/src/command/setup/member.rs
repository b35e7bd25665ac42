//! `accord setup node` and `accord setup user`: obtain a certificate by invitation, and set up its holder.

use super::site::{CertificateSummary, FOLDER, TLS, check_root, displayed, host_name, lock};
use super::steps::{Steps, note};
use super::{files, service};
use crate::failure::{Failure, Result};
use crate::output::show;
use crate::setup_args::{NodeArgs, UserArgs};
use accord_trust::Role;
use accord_trust::identity::{CA_FILE, CERTIFICATE_FILE, Identity};
use accord_trust::issue::{Issued, write_folder};
use accord_trust::join::{Invitation, Issuer, join};
use accord_types::{Error, ErrorCode, settings};
use nix::unistd::geteuid;
use std::io::{BufRead, IsTerminal, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of an invitation.
const INVITATION_MAX: u64 = 1_024;
const SERVICE: &str = "accord-node-agent";
/// The time limit of each answer of the server, and of a connection to the coordinator.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The source of a certificate.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Invitation(&'a Invitation),
    /// The authority on this machine; `None` in a dry run that would create it.
    Here(Option<&'a Issuer>),
}

/// Runs `accord setup node`.
pub(super) fn node(args: &NodeArgs) -> Result<u8> {
    check_root("accord setup node", args.dry_run)?;
    let invitation = invitation(&args.invitation)?;
    let host = host_name()?;
    match &invitation.role {
        Role::Agent(name) if *name == host => {}
        Role::Agent(name) => {
            return Err(Failure::new(format!(
                "this machine is called {host} (uname -n), and the invitation is for node {name}: enter it there, or have one printed: accord setup admit --node {host}"
            )));
        }
        role => return Err(Failure::usage(format!("the invitation is for {role}: accord setup user takes it"))),
    }
    check_node()?;
    let mut steps = Steps::new(args.dry_run);
    files::folder(&mut steps, Path::new(FOLDER), 0o755, None)?;
    let _lock = if args.dry_run { None } else { Some(lock()?) };
    make_node(&mut steps, &invitation.role, Source::Invitation(&invitation), &args.settings, args.renew)?;
    steps.end();
    Ok(0)
}

fn node_files() -> (PathBuf, PathBuf) {
    (Path::new(TLS).join("agent"), Path::new(FOLDER).join("node-agent.env"))
}

/// Refuses settings of an agent that the site has written itself.
pub(super) fn check_node() -> Result<()> {
    let (folder, settings) = node_files();
    files::check_own(&settings, settings::TLS.name, &folder.display().to_string())
}

/// Creates what an agent needs: certificate, settings, service.
pub(super) fn make_node(
    steps: &mut Steps,
    role: &Role,
    source: Source<'_>,
    further: &[(String, String)],
    renew: bool,
) -> Result<()> {
    let (folder, settings) = node_files();
    files::folder(steps, Path::new(TLS), 0o750, None)?;
    let tls = folder.display().to_string();
    let mut wanted: Vec<(&str, &str)> = vec![(settings::TLS.name, &tls)];
    wanted.extend(further.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let mut changed = false;
    // An interrupted run leaves the certificate without the address.
    let has_address = files::setting(&settings, settings::COORDINATOR.name)?.is_some();
    let keep = |steps: &mut Steps, coordinator: &str| {
        let mut all = wanted.clone();
        all.push((settings::COORDINATOR.name, coordinator));
        changed |= files::settings(steps, &settings, &all)?;
        Ok(())
    };
    let is_kept = certificate(steps, role, source, &folder, renew || !has_address, keep)?;
    if !is_kept {
        changed |= files::settings(steps, &settings, &wanted)?;
    }
    if !steps.is_dry() {
        reach(&settings)?;
    }
    service::start(steps, SERVICE, changed, &settings)
}

/// Runs `accord setup user`.
pub(super) fn user(args: &UserArgs) -> Result<u8> {
    let invitation = invitation(&args.invitation)?;
    let role = &invitation.role;
    if matches!(role, Role::Agent(_)) {
        return Err(Failure::usage(format!("the invitation is for {role}: accord setup node takes it")));
    }
    let is_usual = !matches!(role, Role::Admin(_)) || geteuid().is_root();
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => {
            let home =
                std::env::var_os("HOME").ok_or_else(|| Failure::usage("HOME is not set; name a folder with --out"))?;
            PathBuf::from(home).join(".config/accord").join(if is_usual { "tls" } else { "admin" })
        }
    };
    let mut steps = Steps::new(args.dry_run);
    let is_named = !is_usual || args.out.is_some();
    make_user(&mut steps, role, Source::Invitation(&invitation), &folder, is_named, args.renew)?;
    steps.end();
    Ok(0)
}

/// Creates a user's certificate in a folder. With `is_named`, programs find it only by `ACCORD_TLS`.
pub(super) fn make_user(
    steps: &mut Steps,
    role: &Role,
    source: Source<'_>,
    folder: &Path,
    is_named: bool,
    renew: bool,
) -> Result<()> {
    let mut address = None;
    certificate(steps, role, source, folder, renew, |_, coordinator| {
        address = Some(coordinator.to_owned());
        Ok(())
    })?;
    if let Some(address) = address {
        let tls = if is_named { format!(" ACCORD_TLS={}", folder.display()) } else { String::new() };
        show(&format!("To use it:  export ACCORD_COORDINATOR={address}{tls}\n"));
    }
    Ok(())
}

/// Obtains a certificate, unless the folder holds a valid one. Calls `keep` with the coordinator's address once it is
/// written. Returns whether it was called.
fn certificate(
    steps: &mut Steps,
    role: &Role,
    source: Source<'_>,
    folder: &Path,
    renew: bool,
    mut keep: impl FnMut(&mut Steps, &str) -> Result<()>,
) -> Result<bool> {
    let place = folder.display();
    if let Some(there) = displayed(&folder.join(CERTIFICATE_FILE)).filter(|_| !renew) {
        if there.name.role != *role {
            return Err(Failure::new(format!(
                "{place} holds the certificate of {}, and the new one is for {role}; move the folder away, or replace it: accord setup admit, and its line with --renew",
                there.text
            )));
        }
        check_cluster(folder, source)?;
        match unusable(folder, &there) {
            Some(why) => note(format!("the certificate in {place} does not count: {why}")),
            None => {
                let what = format!("certificate in {place}: {} (--renew gets another)", there.text);
                steps.step(what, true, || Ok(()))?;
                return Ok(false);
            }
        }
    }
    let from: &str = match source {
        Source::Invitation(invitation) => &invitation.server,
        Source::Here(_) => "the authority on this machine",
    };
    let what = format!("certificate of {role} in {place}, from {from}");
    if steps.is_dry() {
        steps.step(what, false, || Ok(()))?;
        return Ok(false);
    }
    let mut failure = None;
    let mut kept = |authority: &str, issued: &Issued, coordinator: &str| {
        let written = write_folder(folder, authority, issued).and_then(|()| Identity::read(folder).map(drop));
        written.map_err(|error| {
            let cause = format!("the certificate was issued and can't be kept: {}", error.cause());
            Error::new(error.code(), cause).remedy("mend that, and enter the same line again")
        })?;
        keep(steps, coordinator).map_err(|error| {
            failure = Some(error);
            Error::new(ErrorCode::System, "what belongs to the certificate can't be kept")
        })
    };
    let done = match source {
        Source::Invitation(invitation) => {
            let stream = connect(
                &invitation.server,
                "the server that hands out certificates",
                "accord setup server or admit has to run there, and its port to be open",
            )?;
            join(&stream, invitation, |joined| kept(&joined.authority, &joined.issued, &joined.coordinator))
        }
        Source::Here(Some(Issuer { authority, lifetime, coordinator })) => {
            authority.issue_kept(role.clone(), *lifetime, |issued| kept(authority.certificate(), issued, coordinator))
        }
        // Only dry runs lack an issuer.
        Source::Here(None) => return Ok(false),
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    done?;
    steps.did(what);
    Ok(true)
}

/// Refuses a folder of another cluster than that of this machine's authority.
fn check_cluster(folder: &Path, source: Source<'_>) -> Result<()> {
    let Source::Here(Some(issuer)) = source else { return Ok(()) };
    let believed = std::fs::read_to_string(folder.join(CA_FILE)).unwrap_or_default();
    if believed.contains(issuer.authority.certificate().trim()) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} holds a certificate of another cluster's authority; move the folder away, or name that authority with --authority",
        folder.display()
    )))
}

/// Returns the reason why a folder's certificate must be replaced.
fn unusable(folder: &Path, there: &CertificateSummary) -> Option<String> {
    if there.days < 0 {
        return Some("it has expired".to_owned());
    }
    Identity::read(folder).err().map(|error| error.cause().to_owned())
}

/// Reads an invitation from the argument or a line of standard input, and its code if the argument lacks it.
fn invitation(argument: &str) -> Result<Invitation> {
    let text = match argument {
        "-" => line_of_input()?,
        _ if argument.split('/').count() == 3 => {
            if std::io::stdin().is_terminal() {
                // Standard output may be a file.
                let _ = write!(std::io::stderr(), "Code that the server has printed: ");
            }
            format!("{argument}/{}", line_of_input()?.trim())
        }
        _ => argument.to_owned(),
    };
    text.trim().parse().map_err(Failure::usage)
}

fn line_of_input() -> Result<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(INVITATION_MAX).read_line(&mut line);
    read.map_err(|error| Failure::system("can't read the invitation from standard input", error))?;
    Ok(line)
}

/// Connects to `host:port`, or returns the reason why that is impossible.
fn connect(address: &str, whose: &str, remedy: &str) -> Result<TcpStream> {
    let failed = |why: String| Failure::new(format!("can't reach {whose}, {address}: {why}; {remedy}"));
    let addresses = address.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, ANSWER_LIMIT) {
            Ok(stream) => {
                let limited = stream.set_read_timeout(Some(ANSWER_LIMIT));
                limited
                    .and_then(|()| stream.set_write_timeout(Some(ANSWER_LIMIT)))
                    .map_err(|error| failed(error.to_string()))?;
                return Ok(stream);
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(failed(last))
}

/// Checks whether the coordinator of the settings is reachable from here.
fn reach(file: &Path) -> Result<()> {
    let Some(address) = files::setting(file, settings::COORDINATOR.name)? else { return Ok(()) };
    match connect(&address, "the coordinator", "check that it runs there, and that the port is open") {
        Ok(_) => note(format!("the coordinator at {address} can be reached")),
        Err(failure) => note(format!("{failure}. The agent tries again until it can")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_trust::issue::Authority;

    #[test]
    fn an_expired_certificate_and_one_without_its_key_do_not_count() {
        let place = tempfile::tempdir().unwrap();
        let authority = Authority::new("site", Duration::from_secs(3600)).unwrap();
        let folder = |name: &str, seconds| {
            let folder = place.path().join(name);
            authority.issue_into(&folder, Role::Agent("n1".to_owned()), Duration::from_secs(seconds)).unwrap();
            folder
        };
        let why = |folder: &Path| unusable(folder, &displayed(&folder.join(CERTIFICATE_FILE)).unwrap());
        let (expired, valid, other) = (folder("expired", 0), folder("valid", 3600), folder("other", 3600));
        assert_eq!(why(&expired).as_deref(), Some("it has expired"));
        assert_eq!(why(&valid), None);
        std::fs::copy(other.join("tls.key"), valid.join("tls.key")).unwrap();
        assert!(why(&valid).is_some());
    }

    #[test]
    fn a_folder_of_another_authority_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        let issuer = |authority| Issuer { authority, lifetime: hour, coordinator: "server:7447".to_owned() };
        let [own, other] = ["site", "site"].map(|cluster| issuer(Authority::new(cluster, hour).unwrap()));
        let folder = place.path().join("tls");
        own.authority.issue_into(&folder, Role::Agent("n1".to_owned()), hour).unwrap();
        check_cluster(&folder, Source::Here(Some(&own))).unwrap();
        assert!(check_cluster(&folder, Source::Here(Some(&other))).is_err());
    }
}
