//! `accord pki`: certificates for sites without an authority of their own.

use crate::args::{PkiArgs, PkiCommand, PkiRole};
use crate::failure::{Failure, Result};
use crate::output::print;
use accord_trust::issue::Authority;
use accord_trust::{PeerName, Role};
use std::time::Duration;

/// Runs `accord pki`.
pub(crate) fn pki(args: &PkiArgs) -> Result<u8> {
    match &args.command {
        PkiCommand::Init { folder, cluster, days } => {
            let cluster = match cluster {
                Some(cluster) => cluster.clone(),
                None => nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned(),
            };
            Authority::new(&cluster, time(*days))?.write(folder)?;
            print(&format!("the authority of cluster {cluster} is in {}; keep ca.key to yourself\n", folder.display()));
            let next = format!("accord pki issue {} coordinator --out FOLDER", folder.display());
            print(&format!("next: {next}, then one for each agent and user\n"));
        }
        PkiCommand::Issue { folder, role, name, out, days } => {
            let role = role_of(*role, name.as_deref())?;
            let authority = Authority::read(folder)?;
            authority.issue_into(out, role.clone(), time(*days))?;
            print(&format!(
                "{} has the certificate and key of {}, for {days} days\n",
                out.display(),
                held(&authority, &role)
            ));
        }
        PkiCommand::Renew { folder, certificates, days } => {
            let authority = Authority::read(folder)?;
            for renewed in certificates {
                let PeerName { role, .. } = authority.renew(renewed, time(*days))?;
                print(&format!("{}: {} for {days} more days\n", renewed.display(), held(&authority, &role)));
            }
        }
    }
    Ok(0)
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

fn time(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 24 * 60 * 60)
}
