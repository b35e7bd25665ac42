//! `accord setup node` and `accord setup user`: a certificate by invitation, and what its holder needs beside it.

use super::site::{FOLDER, TLS, check_root, host_name, shown};
use super::steps::{Steps, note};
use super::{files, service};
use crate::failure::{Failure, Result};
use crate::output::show;
use crate::setup_args::{NodeArgs, UserArgs};
use accord_trust::identity::{CERTIFICATE_FILE, Identity};
use accord_trust::issue::write_folder;
use accord_trust::join::{Invitation, join};
use accord_trust::{PeerName, Role};
use accord_types::Error;
use nix::unistd::geteuid;
use std::io::{BufRead, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest invitation.
const INVITATION_MAX: u64 = 1_024;
const SERVICE: &str = "accord-node-agent";
/// How long the server may take for each thing that it sends, and the coordinator for a connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

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
    let mut steps = Steps::new(args.dry_run);
    files::folder(&mut steps, Path::new(FOLDER), 0o755, 0)?;
    files::folder(&mut steps, Path::new(TLS), 0o750, 0)?;
    let folder = Path::new(TLS).join("agent");
    let settings = Path::new(FOLDER).join("node-agent.env");
    let tls = folder.display().to_string();
    let mut further: Vec<(&str, &str)> = vec![("ACCORD_TLS", &tls)];
    further.extend(args.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    // What may fail goes before the certificate, which comes once.
    let mut changed = files::settings(&mut steps, &settings, &further)?;
    certificate(&mut steps, &invitation, &folder, args.renew, |steps, coordinator| {
        changed |= files::settings(steps, &settings, &[("ACCORD_COORDINATOR", coordinator)])?;
        Ok(())
    })?;
    if !args.dry_run {
        reach(&settings)?;
    }
    service::start(&mut steps, SERVICE, changed, &settings)?;
    steps.end();
    Ok(0)
}

/// Runs `accord setup user`.
pub(super) fn user(args: &UserArgs) -> Result<u8> {
    let invitation = invitation(&args.invitation)?;
    let role = &invitation.role;
    if matches!(role, Role::Agent(_)) {
        return Err(Failure::usage(format!("the invitation is for {role}: accord setup node takes it")));
    }
    let usual = !matches!(role, Role::Admin(_)) || geteuid().is_root();
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => {
            let home =
                std::env::var_os("HOME").ok_or_else(|| Failure::usage("HOME is not set; name a folder with --out"))?;
            PathBuf::from(home).join(".config/accord").join(if usual { "tls" } else { "admin" })
        }
    };
    let mut steps = Steps::new(args.dry_run);
    let mut address = None;
    certificate(&mut steps, &invitation, &folder, args.renew, |_, coordinator| {
        address = Some(coordinator.to_owned());
        Ok(())
    })?;
    if let Some(address) = address {
        let tls = if usual && args.out.is_none() { String::new() } else { format!(" ACCORD_TLS={}", folder.display()) };
        show(&format!("To use it:  export ACCORD_COORDINATOR={address}{tls}\n"));
    }
    steps.end();
    Ok(0)
}

/// Gets the certificate of an invitation, unless the folder holds one. `tell` is called with the coordinator's address before it is written.
fn certificate(
    steps: &mut Steps,
    invitation: &Invitation,
    folder: &Path,
    renew: bool,
    tell: impl FnOnce(&mut Steps, &str) -> Result<()>,
) -> Result<()> {
    let role = &invitation.role;
    let there = shown(&folder.join(CERTIFICATE_FILE));
    let place = folder.display();
    let what = match &there {
        Some((PeerName { role: other, .. }, shown)) if other != role && !renew => {
            return Err(Failure::new(format!(
                "{place} holds the certificate of {shown}, and the invitation is for {role}; move the folder away, or replace it with --renew"
            )));
        }
        Some((_, shown)) if !renew => {
            // Else the invitation would be used for nothing.
            Identity::read(folder)?;
            return steps
                .step(format!("certificate in {place}: {shown} (--renew gets another)"), true, || Ok(()))
                .map(|_| ());
        }
        _ => format!("certificate of {role} in {place}, from {}", invitation.server),
    };
    if steps.is_dry() {
        return steps.step(what, false, || Ok(())).map(|_| ());
    }
    let stream = connect(
        &invitation.server,
        "the server that hands out certificates",
        "accord setup server or admit has to run there, and its port to be open",
    )?;
    let mut told = Ok(());
    let joined = join(&stream, invitation, |joined| {
        told = tell(steps, &joined.coordinator);
        let kept = if told.is_ok() { write_folder(folder, &joined.authority, &joined.issued) } else { Ok(()) };
        kept.map_err(|error| {
            let cause = format!("the certificate was issued and can't be kept: {}", error.cause());
            Error::new(error.code(), cause).remedy("mend that, and have another invitation printed: accord setup admit")
        })
    });
    told?;
    joined?;
    steps.did(what);
    Ok(())
}

/// Reads an invitation: the argument, or a line of standard input.
fn invitation(argument: &str) -> Result<Invitation> {
    let mut line = argument.to_owned();
    if argument == "-" {
        line.clear();
        let read = std::io::stdin().lock().take(INVITATION_MAX).read_line(&mut line);
        read.map_err(|error| Failure::system("can't read the invitation from standard input", error))?;
    }
    line.trim().parse().map_err(Failure::usage)
}

/// Connects to `host:port`, or says why that can't be.
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

/// Whether the coordinator of the settings can be reached from here.
fn reach(settings: &Path) -> Result<()> {
    let text = std::fs::read_to_string(settings).unwrap_or_default();
    let coordinator = text.lines().rev().find_map(|line| line.strip_prefix("ACCORD_COORDINATOR="));
    let Some(address) = coordinator else {
        return Err(Failure::new(format!(
            "{} has no ACCORD_COORDINATOR; add it, or get the certificate again: accord setup node INVITATION --renew",
            settings.display()
        )));
    };
    match connect(address, "the coordinator", "check that it runs there, and that the port is open") {
        Ok(_) => note(format!("the coordinator at {address} can be reached")),
        Err(failure) => note(format!("{failure}. The agent tries again until it can")),
    }
    Ok(())
}
