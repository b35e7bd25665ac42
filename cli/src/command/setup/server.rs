//! `accord setup server`.

use super::site::{FOLDER, TLS, check_root, host_name, shown};
use super::steps::{Steps, note};
use super::{admit, files, service};
use crate::failure::{Failure, Result};
use crate::setup_args::ServerArgs;
use accord_scheduler::policy::SitePolicy;
use accord_trust::Role;
use accord_trust::identity::{CA_FILE, CERTIFICATE_FILE};
use accord_trust::issue::{Authority, CA_KEY_FILE};
use nix::unistd::{Group, User};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The coordinator's account and group.
const ACCOUNT: &str = "accord";
const SERVICE: &str = "accord-coordinator";
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);
/// Access of root and the coordinator's group.
const OF_GROUP: u32 = 0o750;
const FILE_OF_GROUP: u32 = 0o640;

/// Runs `accord setup server`.
pub(super) fn server(args: &ServerArgs) -> Result<u8> {
    check_root("accord setup server", args.dry_run)?;
    // Before anything is changed.
    let policy = args.policy.as_deref().map(checked).transpose()?;
    let mut steps = Steps::new(args.dry_run);
    steps.step(format!("account {ACCOUNT}, of the coordinator"), group().is_some() && has_account(), make_account)?;
    let folder = Path::new(FOLDER);
    let changed = match group() {
        Some(group) => {
            files::folder(&mut steps, folder, 0o755, 0)?;
            files::folder(&mut steps, Path::new(TLS), OF_GROUP, group)?;
            let authority = authority(&mut steps, args)?;
            certificate(&mut steps, authority.as_ref(), args.admit.days, group)?;
            policy_and_settings(&mut steps, policy.as_deref(), args)?
        }
        // A dry run on a machine without the account.
        None => {
            note(format!("then: folders, authority, the coordinator's certificate and settings in {FOLDER}"));
            true
        }
    };
    service::start(&mut steps, SERVICE, changed, &folder.join("coordinator.env"))?;
    let code = admit::missing(&mut steps, &args.admit)?;
    steps.end();
    Ok(code)
}

fn group() -> Option<u32> {
    Group::from_name(ACCOUNT).ok().flatten().map(|group| group.gid.as_raw())
}

fn has_account() -> bool {
    matches!(User::from_name(ACCOUNT), Ok(Some(_)))
}

fn make_account() -> Result<()> {
    let mut command = Command::new("useradd");
    command.args([
        "--system",
        "--user-group",
        "--no-create-home",
        "--home-dir",
        "/",
        "--shell",
        "/usr/sbin/nologin",
        ACCOUNT,
    ]);
    let output = command.stdin(Stdio::null()).output().map_err(|error| Failure::system("useradd", error))?;
    if output.status.success() && group().is_some() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("useradd: {}; make the system account and group {ACCOUNT} by hand", said.trim())))
}

/// Returns the authority; `None` in a dry run that would make it.
fn authority(steps: &mut Steps, args: &ServerArgs) -> Result<Option<Authority>> {
    let folder = &args.admit.authority;
    let is_there = folder.join(CA_KEY_FILE).exists();
    let name = args.cluster.clone().map_or_else(host_name, Ok)?;
    let what = match shown(&folder.join(CA_FILE)) {
        Some((_, shown)) if is_there => format!("authority in {}: {shown}", folder.display()),
        _ => format!(
            "authority of cluster {name} in {}; its ca.key signs every certificate: keep it to root",
            folder.display()
        ),
    };
    steps.step(what, is_there, || Ok(Authority::new(&name, AUTHORITY_LIFETIME)?.write(folder)?))?;
    if steps.is_dry() && !is_there {
        return Ok(None);
    }
    let authority = Authority::read(folder)?;
    if args.cluster.as_deref().is_some_and(|wanted| wanted != authority.cluster()) {
        return Err(Failure::new(format!(
            "the authority in {} is of cluster {}; leave --cluster out, or name another --authority",
            folder.display(),
            authority.cluster()
        )));
    }
    Ok(Some(authority))
}

/// The coordinator's certificate, which its group may read.
fn certificate(steps: &mut Steps, authority: Option<&Authority>, days: u32, group: u32) -> Result<()> {
    let folder = Path::new(TLS).join("coordinator");
    let certificate = folder.join(CERTIFICATE_FILE);
    let there = shown(&certificate);
    if let (Some((name, shown)), Some(authority)) = (&there, authority)
        && (name.cluster != authority.cluster() || name.role != Role::Coordinator)
    {
        let cause = format!("{} holds the certificate of {shown}, not of this cluster's coordinator", folder.display());
        return Err(Failure::new(format!("{cause}; move the folder away")));
    }
    let what = format!(
        "certificate in {}: {}",
        folder.display(),
        there.as_ref().map_or_else(|| format!("coordinator, for {days} days"), |(_, shown)| shown.clone())
    );
    steps.step(what, there.is_some(), || match authority {
        Some(authority) => Ok(authority.issue_into(&folder, Role::Coordinator, admit::lifetime(days))?),
        None => Ok(()),
    })?;
    let files: Vec<PathBuf> = ["tls.key", CERTIFICATE_FILE, CA_FILE].iter().map(|name| folder.join(name)).collect();
    let is_given = files::is_given(&folder, OF_GROUP, group)
        && files.iter().all(|file| files::is_given(file, FILE_OF_GROUP, group));
    steps.step(format!("access of group {ACCOUNT} to {}", folder.display()), is_given, || {
        files.iter().try_for_each(|file| files::give(file, FILE_OF_GROUP, group))?;
        files::give(&folder, OF_GROUP, group)
    })?;
    Ok(())
}

/// Returns the text of a policy in which nothing is wrong.
fn checked(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::system(format!("can't read the policy {}", file.display()), error))?;
    match SitePolicy::read(&text, None) {
        Ok(_) => Ok(text),
        Err(findings) => {
            let first = findings.first().map(|finding| format!(":{finding}")).unwrap_or_default();
            Err(Failure::new(format!(
                "the policy is wrong: {}{first}\naccord policy check {0} lists all that is",
                file.display()
            )))
        }
    }
}

/// Returns whether the coordinator has to start anew.
fn policy_and_settings(steps: &mut Steps, policy: Option<&str>, args: &ServerArgs) -> Result<bool> {
    let folder = Path::new(FOLDER);
    let tls = format!("{TLS}/coordinator");
    let mut wanted = vec![("ACCORD_TLS", tls.as_str())];
    let place = folder.join("policy.toml");
    let policy_file = place.display().to_string();
    let mut changed = false;
    if let Some(text) = policy {
        let is_there = std::fs::read_to_string(&place).is_ok_and(|there| there == text);
        changed |= steps.step(format!("policy in {policy_file}"), is_there, || files::write(&place, text))?;
        wanted.push(("ACCORD_POLICY", &policy_file));
    } else if !place.exists() {
        note("no policy: all users share all devices (accord policy apply FILE puts one into effect)");
    }
    wanted.extend(args.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    changed |= files::settings(steps, &folder.join("coordinator.env"), &wanted)?;
    Ok(changed)
}
