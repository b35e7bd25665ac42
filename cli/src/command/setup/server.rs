//! `accord setup server`.

use super::admit::Admission;
use super::site::{CertificateSummary, FOLDER, TLS, check_root, displayed, host_name, lock};
use super::steps::{Steps, note};
use super::{files, service};
use crate::command::pki::lifetime;
use crate::failure::{Failure, Result};
use crate::setup_args::ServerArgs;
use accord_scheduler::policy::SitePolicy;
use accord_trust::Role;
use accord_trust::identity::{CA_FILE, CERTIFICATE_FILE};
use accord_trust::issue::{Authority, CA_KEY_FILE};
use accord_trust::name::word;
use accord_types::settings;
use nix::unistd::{Group, User};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The coordinator's account and group.
const ACCOUNT: &str = "accord";
const SERVICE: &str = "accord-coordinator";
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);
/// Access for root and the coordinator's group.
const OF_GROUP: u32 = 0o750;
const FILE_OF_GROUP: u32 = 0o640;

/// Runs `accord setup server`.
pub(super) fn server(args: &ServerArgs) -> Result<u8> {
    check_root("accord setup server", args.dry_run)?;
    // Checked before anything is changed.
    let policy = args.policy.as_deref().map(checked).transpose()?;
    let cluster = args.cluster.clone().map_or_else(host_name, Ok)?;
    word(&cluster).map_err(|why| Failure::usage(format!("the cluster's name: {why}; choose one with --cluster")))?;
    let (certificate_folder, settings) = (coordinator_folder(), Path::new(FOLDER).join("coordinator.env"));
    files::check_own(&settings, settings::TLS.name, &certificate_folder.display().to_string())?;
    check_authority(&args.admit.authority, &certificate_folder)?;
    let admission = Admission::new(&args.admit, false, args.dry_run)?;
    let mut steps = Steps::new(args.dry_run);
    files::folder(&mut steps, Path::new(FOLDER), 0o755, None)?;
    let locked = if args.dry_run { None } else { Some(lock()?) };
    steps.step(format!("account {ACCOUNT}, of the coordinator"), group().is_some() && has_account(), make_account)?;
    let mut authority = None;
    let changed = match group() {
        Some(group) => {
            files::folder(&mut steps, Path::new(TLS), OF_GROUP, Some(group))?;
            authority = self::authority(&mut steps, args, &cluster)?;
            certificate(&mut steps, authority.as_ref(), args.admit.days, group)?;
            policy_and_settings(&mut steps, policy.as_deref(), args)?
        }
        // A dry run on a machine without the account.
        None => {
            note(format!("then: authority, the coordinator's certificate and settings in {FOLDER}"));
            true
        }
    };
    service::start(&mut steps, SERVICE, changed, &settings)?;
    let issuer = authority.map(|authority| admission.issuer(authority, &args.admit));
    admission.make_here(&mut steps, issuer.as_ref(), false)?;
    admission.print(&mut steps)?;
    if args.dry_run || !admission.has_invitations() {
        steps.end();
    }
    drop(locked);
    match issuer {
        Some(issuer) => admission.serve(issuer, &args.admit),
        None => Ok(0),
    }
}

fn coordinator_folder() -> PathBuf {
    Path::new(TLS).join("coordinator")
}

/// Refuses an incomplete authority, and a second one for a cluster that has one elsewhere.
fn check_authority(folder: &Path, coordinator: &Path) -> Result<()> {
    let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
    match (is_there(folder.join(CA_KEY_FILE)), is_there(folder.join(CA_FILE))) {
        (true, true) => Ok(()),
        (false, false) if is_there(coordinator.to_owned()) => Err(Failure::new(format!(
            "{} is of a cluster whose authority is not in {}; name it with --authority",
            coordinator.display(),
            folder.display()
        ))),
        (false, false) => Ok(()),
        (has_key, _) => {
            let (there, lacks) = if has_key { (CA_KEY_FILE, CA_FILE) } else { (CA_FILE, CA_KEY_FILE) };
            Err(Failure::new(format!(
                "the authority in {} has {there} and no {lacks}; put that back, or move the folder away",
                folder.display()
            )))
        }
    }
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
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("useradd: {}; make the system account and group {ACCOUNT} by hand", printed.trim())))
}

/// Returns the authority; `None` in a dry run that would create it.
fn authority(steps: &mut Steps, args: &ServerArgs, name: &str) -> Result<Option<Authority>> {
    let folder = &args.admit.authority;
    let is_there = folder.join(CA_KEY_FILE).exists();
    let what = match displayed(&folder.join(CA_FILE)) {
        Some(displayed) if is_there => format!("authority in {}: {}", folder.display(), displayed.text),
        _ => format!(
            "authority of cluster {name} in {}; its ca.key signs every certificate: keep it to root",
            folder.display()
        ),
    };
    steps.step(what, is_there, || Ok(Authority::new(name, AUTHORITY_LIFETIME)?.write(folder)?))?;
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

/// Creates the coordinator's certificate, which its group may read.
fn certificate(steps: &mut Steps, authority: Option<&Authority>, days: u32, group: u32) -> Result<()> {
    let folder = coordinator_folder();
    let place = folder.display();
    let there = displayed(&folder.join(CERTIFICATE_FILE));
    if let (Some(CertificateSummary { name, text, .. }), Some(authority)) = (&there, authority) {
        let believed = std::fs::read_to_string(folder.join(CA_FILE)).unwrap_or_default();
        let is_ours = name.cluster == authority.cluster() && believed.contains(authority.certificate().trim());
        if !is_ours || name.role != Role::Coordinator {
            return Err(Failure::new(format!(
                "{place} holds the certificate of {text}, not one of this cluster's coordinator and authority; name its authority with --authority, or move the folder away"
            )));
        }
    }
    let is_valid = there.as_ref().is_some_and(|there| there.days >= 0);
    let what = match &there {
        Some(there) if is_valid => format!("certificate in {place}: {}", there.text),
        Some(_) => format!("certificate in {place}: expired, renewed for {days} days"),
        None => format!("certificate in {place}: coordinator, for {days} days"),
    };
    steps.step(what, is_valid, || match authority {
        Some(authority) if there.is_some() => Ok(authority.renew(&folder, lifetime(days)).map(drop)?),
        Some(authority) => Ok(authority.issue_into(&folder, Role::Coordinator, lifetime(days))?),
        None => Ok(()),
    })?;
    let files: Vec<PathBuf> = ["tls.key", CERTIFICATE_FILE, CA_FILE].iter().map(|name| folder.join(name)).collect();
    let is_given = files::is_given(&folder, OF_GROUP, group)
        && files.iter().all(|file| files::is_given(file, FILE_OF_GROUP, group));
    steps.step(format!("access of group {ACCOUNT} to {}", folder.display()), is_given, || {
        files.iter().try_for_each(|file| files::give(file, FILE_OF_GROUP, Some(group)))?;
        files::give(&folder, OF_GROUP, Some(group))
    })?;
    Ok(())
}

/// Returns the text of a policy without faults.
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

/// Returns whether the coordinator must be restarted.
fn policy_and_settings(steps: &mut Steps, policy: Option<&str>, args: &ServerArgs) -> Result<bool> {
    let folder = Path::new(FOLDER);
    let tls = format!("{TLS}/coordinator");
    let mut wanted = vec![(settings::TLS.name, tls.as_str())];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_gets_no_second_authority_and_no_half_of_one() {
        let place = tempfile::tempdir().unwrap();
        let (authority, coordinator) = (place.path().join("authority"), place.path().join("coordinator"));
        check_authority(&authority, &coordinator).unwrap();
        std::fs::create_dir(&coordinator).unwrap();
        let printed = check_authority(&authority, &coordinator).unwrap_err().to_string();
        assert!(printed.contains("name it with --authority"), "{printed}");
        std::fs::create_dir(&authority).unwrap();
        for (file, lacks) in [(CA_KEY_FILE, CA_FILE), (CA_FILE, CA_KEY_FILE)] {
            std::fs::write(authority.join(file), "").unwrap();
            let printed = check_authority(&authority, &coordinator).unwrap_err().to_string();
            assert!(printed.contains(&format!("and no {lacks}")), "{printed}");
            std::fs::remove_file(authority.join(file)).unwrap();
        }
        for file in [CA_KEY_FILE, CA_FILE] {
            std::fs::write(authority.join(file), "").unwrap();
        }
        check_authority(&authority, &coordinator).unwrap();
    }
}
