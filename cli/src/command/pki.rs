//! `accord pki`: certificates for sites without an authority of their own.

use crate::failure::{Failure, Result};
use crate::output::{Table, print, show};
use crate::pki_args::{PkiArgs, PkiCommand, PkiRole};
use accord_trust::identity::{CA_FILE, CERTIFICATE_FILE, holder_of};
use accord_trust::issue::Authority;
use accord_trust::register::{REGISTER_FILE, issued};
use accord_trust::{PeerName, Role};
use accord_types::settings;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Folders of a machine's services, and of its authority.
pub(crate) const OF_SERVICES: [&str; 3] =
    ["/etc/accord/authority", "/etc/accord/tls/coordinator", "/etc/accord/tls/agent"];
/// A certificate with fewer days left is due for renewal.
pub(crate) const DAYS_MIN: i64 = 30;

/// Returns the days that are left until an expiry, counted from 1970; negative ones after it.
pub(crate) fn days_left(expiry: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = |time: Duration| i64::try_from(time.as_secs() / 86_400).unwrap_or(i64::MAX);
    if expiry >= now { days(expiry - now) } else { -1 - days(now - expiry) }
}

/// Runs `accord pki`.
pub(crate) fn pki(args: &PkiArgs) -> Result<u8> {
    match &args.command {
        PkiCommand::Init { folder, cluster, days } => {
            let cluster = match cluster {
                Some(cluster) => cluster.clone(),
                None => nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned(),
            };
            Authority::new(&cluster, lifetime(*days))?.write(folder)?;
            print(&format!("the authority of cluster {cluster} is in {}; keep ca.key to yourself\n", folder.display()));
            let next = format!("accord pki issue {} coordinator --out FOLDER", folder.display());
            print(&format!("next: {next}, then one for each agent and user\n"));
        }
        PkiCommand::Issue { folder, role, name, out, days } => {
            let role = role_of(*role, name.as_deref())?;
            let authority = Authority::read(folder)?;
            authority.issue_into(out, role.clone(), lifetime(*days))?;
            print(&format!(
                "{} has the certificate and key of {}, for {days} days\n",
                out.display(),
                held(&authority, &role)
            ));
        }
        PkiCommand::List { folders, json } => list(folders, *json)?,
        PkiCommand::Renew { folder, certificates, days } => {
            let authority = Authority::read(folder)?;
            for renewed in certificates {
                let PeerName { role, .. } = authority.renew(renewed, lifetime(*days))?;
                print(&format!("{}: {} for {days} more days\n", renewed.display(), held(&authority, &role)));
            }
        }
    }
    Ok(0)
}

/// A certificate of a list.
struct Listed {
    name: PeerName,
    days: i64,
    folder: PathBuf,
    /// Whether only the authority's register lists it.
    is_elsewhere: bool,
}

fn list(folders: &[PathBuf], as_json: bool) -> Result<()> {
    let mut found = Vec::new();
    if folders.is_empty() {
        // Those that exist and may be read.
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".config/accord"));
        let own = own.into_iter().flat_map(|own| [own.join("tls"), own.join("admin")]);
        let named = crate::client::variable(settings::TLS.name).map(PathBuf::from);
        let usual: BTreeSet<PathBuf> = OF_SERVICES.iter().map(PathBuf::from).chain(own).chain(named).collect();
        for folder in usual {
            found.extend(of_folder(&folder).unwrap_or_default());
        }
    }
    for folder in folders {
        found.extend(of_folder(folder)?);
    }
    if as_json {
        let one = |listed: &Listed| {
            json!({
                "name": listed.name.to_string(),
                "days_left": listed.days,
                "folder": listed.folder.display().to_string(),
                "elsewhere": listed.is_elsewhere,
            })
        };
        print(&format!("{:#}\n", json!(found.iter().map(one).collect::<Vec<_>>())));
        return Ok(());
    }
    let mut table = Table::new(&["HOLDER", "CLUSTER", ">DAYS LEFT", "FOLDER"]);
    for Listed { name, days, folder, is_elsewhere } in &found {
        let days = if *days < 0 { "expired".to_owned() } else { days.to_string() };
        let folder =
            if *is_elsewhere { format!("issued by {}", folder.display()) } else { folder.display().to_string() };
        table.row([name.role.to_string(), name.cluster.clone(), days, folder]);
    }
    if table.is_empty() {
        return Err(Failure::new("there are no certificates here; name folders: accord pki list FOLDER"));
    }
    show(&table.to_string());
    if found.iter().any(|listed| listed.days < DAYS_MIN) {
        show(&format!(
            "renew those with fewer than {DAYS_MIN} days (accord pki renew, or accord setup admit and --renew there)\n"
        ));
    }
    Ok(())
}

/// Returns the certificate of a folder, or an authority's with those that it has issued.
fn of_folder(folder: &Path) -> Result<Vec<Listed>> {
    let listed = |(name, expiry): (PeerName, Duration), is_elsewhere| Listed {
        name,
        days: days_left(expiry),
        folder: folder.to_owned(),
        is_elsewhere,
    };
    if folder.join(CERTIFICATE_FILE).exists() {
        return Ok(vec![listed(holder_of(&folder.join(CERTIFICATE_FILE))?, false)]);
    }
    let mut all = vec![listed(holder_of(&folder.join(CA_FILE))?, false)];
    if folder.join(REGISTER_FILE).exists() {
        all.extend(issued(folder)?.into_iter().map(|one| listed(one, true)));
    }
    Ok(all)
}

fn held(authority: &Authority, role: &Role) -> String {
    format!("{role} in cluster {}", authority.cluster())
}

fn role_of(role: PkiRole, name: Option<&str>) -> Result<Role> {
    let named = |what: &str| {
        name.map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("whose? name the {what}: accord pki issue ... {what} NAME")))
    };
    Ok(match role {
        PkiRole::Coordinator if name.is_some() => {
            return Err(Failure::new("a cluster has one coordinator; leave its name out"));
        }
        PkiRole::Coordinator => Role::Coordinator,
        PkiRole::Agent => Role::Agent(named("agent")?),
        PkiRole::Tenant => Role::Tenant(named("tenant")?),
        PkiRole::Admin => Role::Admin(named("admin")?),
    })
}

/// Returns the lifetime of a certificate of this many days.
pub(crate) fn lifetime(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 24 * 60 * 60)
}
