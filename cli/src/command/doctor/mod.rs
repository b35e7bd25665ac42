//! `accord doctor`: checks what this machine has for Accord, and prints a remedy for each fault.

mod gpu_clocks;
mod item;
mod machine;
mod measured;
mod tool;
mod toolchain;

use crate::args::DoctorArgs;
use crate::client::Coordinator;
use crate::cluster::Cluster;
use crate::command::pki::{DAYS_MIN, OF_SERVICES, days_left};
use crate::failure::Result;
use crate::launch::{MpiPart, Mpirun, Srun, find_libacc, find_program};
use crate::output::{print, show};
use crate::viewpoint::node_name;
use accord_trust::Trust;
use accord_trust::attester::Attester;
use accord_trust::identity::{CERTIFICATE_FILE, holder_of};
use accord_types::settings;
use item::Item;
use nix::sys::resource::{Resource, getrlimit};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The exit code if programs fail because of a finding.
const FOUND: u8 = 1;
/// Memory that a process should be able to lock: networks and GPUs access only locked memory.
const LOCKED_MIN: u64 = 1 << 30;
/// Open files that an agent needs besides its programs' lanes.
const FILES_MIN: u64 = 4_096;

/// Performs all checks, what every user needs first; returns 1 if one finds an error.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8> {
    let mut items = programs();
    items.extend(toolchain::items());
    let part = MpiPart::find();
    items.push(mpi_part(&part));
    items.push(launcher(&part));
    items.extend(slurm(&part));
    items.push(limit("locked memory (ulimit -l)", Resource::RLIMIT_MEMLOCK, LOCKED_MIN, Unit::KiB));
    items.push(limit("open files (ulimit -n)", Resource::RLIMIT_NOFILE, FILES_MIN, Unit::One));
    items.extend(machine::items());
    items.extend(gpu_clocks::items());
    let (tls, address) = (setting(&settings::TLS), setting(&settings::COORDINATOR));
    let of_cluster = cluster(tls.as_deref(), address.as_deref(), args.wait);
    if !of_cluster.iter().any(|item| item.what.starts_with(measured::GPU_AWARE)) {
        items.push(gpu_aware(&part));
    }
    items.extend(gpus());
    items.extend(of_services());
    items.extend(of_cluster);
    let found = items.iter().any(Item::is_error);
    if args.json {
        print(&format!("{:#}\n", json!(items.iter().map(Item::json).collect::<Vec<_>>())));
    } else {
        items.iter().for_each(|item| show(&item.text()));
    }
    Ok(if found { FOUND } else { 0 })
}

fn setting(setting: &settings::Setting) -> Option<String> {
    std::env::var(setting.name).ok().filter(|value| !value.is_empty())
}

/// Checks that Accord's own parts exist and have this version.
fn programs() -> Vec<Item> {
    let own = env!("CARGO_PKG_VERSION");
    let mut items: Vec<Item> = ["accord-coordinator", "accord-node-agent"]
        .into_iter()
        .map(|name| match find_program(name) {
            Err(failure) => Item::error(name, failure.to_string(), "install all of Accord in one place (make install)"),
            Ok(path) => same_version(name, &path, version(&path).as_deref(), own),
        })
        .collect();
    items.push(match find_libacc() {
        Ok(path) => Item::ok("libacc.so", path.display().to_string()),
        Err(failure) => {
            Item::error("libacc.so", failure.to_string(), "install all of Accord in one place (make install)")
        }
    });
    items
}

/// Returns the version that a program prints, which follows its name.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().nth(1).map(str::to_owned)
}

fn same_version(name: &'static str, path: &Path, version: Option<&str>, own: &str) -> Item {
    let is = format!("{} {}", version.unwrap_or("without an answer"), path.display());
    match version {
        Some(version) if version == own => Item::ok(name, is),
        _ => Item::error(name, is, format!("install {own} there too, as accord is, or correct PATH")),
    }
}

fn mpi_part(part: &MpiPart) -> Item {
    const WHAT: &str = "MPI of the agents";
    match part {
        MpiPart::Here { built_for, fits: true, .. } => Item::ok(WHAT, format!("{built_for}, which is here")),
        MpiPart::Here { built_for, here, .. } => {
            let is = format!("built for {built_for}, but here is {here}");
            Item::error(WHAT, is, "load the module that it was built with, or build it again (make mpi)")
        }
        MpiPart::None(why) => {
            Item::absent(WHAT, why.as_str(), "build it where there is an MPI (make mpi); --fabric tcp needs none")
        }
    }
}

fn launcher(part: &MpiPart) -> Item {
    const WHAT: &str = "mpirun";
    let mpirun = match Mpirun::find() {
        Ok(mpirun) => mpirun,
        Err(failure) => {
            return Item::absent(WHAT, failure.to_string(), "load the site's MPI module, or install openmpi-bin");
        }
    };
    match part.started_by(|mpi| mpirun.starts_ranks_of(mpi)) {
        Ok(()) => Item::ok(WHAT, mpirun.name()),
        Err(why) => Item::error(WHAT, why, "have that MPI's mpirun come first in PATH"),
    }
}

/// Returns the finding on Slurm; `None` without Slurm.
fn slurm(part: &MpiPart) -> Option<Item> {
    const WHAT: &str = "srun";
    let srun = Srun::find(part.built_for()).ok()?;
    Some(match part.started_by(|mpi| srun.starts_ranks_of(mpi)) {
        Ok(()) => Item::ok(WHAT, srun.name()),
        Err(why) => Item::warning(WHAT, why, "start runs with --launcher mpirun"),
    })
}

/// The unit in which a shell's `ulimit` shows a limit.
#[derive(Clone, Copy)]
enum Unit {
    One,
    KiB,
}

impl Unit {
    fn text(self, limit: u64) -> String {
        match (self, limit) {
            (_, u64::MAX) => "unlimited".to_owned(),
            (Self::One, limit) => limit.to_string(),
            (Self::KiB, limit) => format!("{} KiB", limit >> 10),
        }
    }
}

fn limit(what: &'static str, resource: Resource, wanted: u64, unit: Unit) -> Item {
    match getrlimit(resource) {
        Ok((soft, hard)) => enough(what, (soft, hard), wanted, unit),
        Err(error) => Item::unknown(what, error.to_string(), "see what getrlimit(2) says of this error"),
    }
}

fn enough(what: &'static str, (soft, hard): (u64, u64), wanted: u64, unit: Unit) -> Item {
    let is = format!("{}, at most {}", unit.text(soft), unit.text(hard));
    if soft >= wanted {
        return Item::ok(what, is);
    }
    let wanted_text = unit.text(wanted);
    let remedy = if hard >= wanted {
        format!("raise it to {wanted_text} in the shell or the job script with that ulimit")
    } else {
        format!(
            "have root raise it to {wanted_text} in /etc/security/limits.conf, and in the services that start jobs (LimitMEMLOCK=, LimitNOFILE=)"
        )
    };
    Item::warning(what, is, remedy)
}

/// Returns what a program of this user would find of a cluster; nothing if no setting names one.
fn cluster(tls: Option<&str>, address: Option<&str>, wait: Duration) -> Vec<Item> {
    if tls.is_none() && address.is_none() {
        return Vec::new();
    }
    let (munge, token) = (setting(&settings::MUNGE), setting(&settings::TOKEN_FILE));
    let attester = Attester::of_settings(munge.as_deref(), token.as_deref());
    let home = std::env::var_os("HOME");
    let trust = Trust::of_program(address.unwrap_or_default(), tls, attester, home.as_deref());
    let keys = keys(&trust);
    // Without an identity the coordinator can't be queried.
    let asked = address.zip(trust.ok()).map(|(address, trust)| coordinator(address, trust, wait));
    std::iter::once(keys).chain(asked.into_iter().flatten()).collect()
}

/// Returns the finding on this user's identity.
fn keys(trust: &accord_types::Result<Trust>) -> Item {
    const WHAT: &str = "certificates (ACCORD_TLS)";
    match trust {
        Ok(trust) => {
            let days = trust.current(|_| ()).expiry().map(days_left);
            certificate(WHAT, displayed(trust), days)
        }
        Err(error) => {
            let remedy = error.remedy_text().unwrap_or("have them issued anew (accord pki issue)").to_owned();
            Item::error(WHAT, error.cause().to_owned(), remedy)
        }
    }
}

/// Returns the finding on a certificate with this many days left, if it expires.
fn certificate(what: &str, is: String, days: Option<i64>) -> Item {
    let is = match days {
        Some(days) if days < 0 => format!("{is}, expired"),
        Some(days) => format!("{is}, {days} days left"),
        None => is,
    };
    let remedy = "renew it where the authority is: accord pki renew, or accord setup admit and --renew here";
    match days {
        Some(days) if days < 0 => Item::error(what, is, remedy),
        Some(days) if days < DAYS_MIN => Item::warning(what, is, remedy),
        _ => Item::ok(what, is),
    }
}

/// Returns the findings on certificates of this machine's services that this user may read.
fn of_services() -> Vec<Item> {
    let of = |folder: &&str| {
        let (name, expiry) = holder_of(&Path::new(folder).join(CERTIFICATE_FILE)).ok()?;
        Some(certificate(&format!("certificate in {folder}"), name.role.to_string(), Some(days_left(expiry))))
    };
    OF_SERVICES.iter().filter_map(of).collect()
}

/// Describes the credentials for the coordinator.
fn displayed(trust: &Trust) -> String {
    let identity = trust.current(|_| ());
    match (identity.name(), trust.folder()) {
        (Ok(name), Some(folder)) => format!("{} in {}", name.role, folder.display()),
        (_, Some(folder)) => {
            format!("none; the authority's is in {}, and MUNGE or Kubernetes says who this is", folder.display())
        }
        (_, None) => "none; the coordinator is on this machine, where the system says who this is".to_owned(),
    }
}

fn coordinator(address: &str, trust: Trust, wait: Duration) -> Vec<Item> {
    const WHAT: &str = "coordinator (ACCORD_COORDINATOR)";
    let asked = Coordinator::new(address, trust).and_then(|mut coordinator| {
        let view = coordinator.describe_measured(None, &[], wait)?;
        let clock = measured::clock(unix_ms(), view.unix_ms);
        Ok((clock, Cluster::of_view(address, view)?))
    });
    match asked {
        Ok((clock, cluster)) => {
            let mut items = vec![Item::ok(WHAT, format!("{address}, {} nodes", cluster.nodes.len())), clock];
            items.extend(measured::items(&cluster, env!("CARGO_PKG_VERSION"), &node_name(), machine::fastest_line()));
            items
        }
        Err(failure) => {
            vec![Item::error(WHAT, failure.to_string(), "check that it runs, and that this machine reaches that port")]
        }
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the finding on MPI with GPU memory, which only a test by agents decides.
fn gpu_aware(part: &MpiPart) -> Item {
    const WHAT: &str = "MPI from GPU memory";
    match part {
        MpiPart::None(_) => Item::unknown(WHAT, "there is no MPI part", "only with --fabric mpi it matters"),
        MpiPart::Here { .. } => {
            let how = "agents with --fabric mpi try it at their start: have accord run start accord doctor with them; docs/use/jobs.md";
            Item::unknown(WHAT, "not tried here", how)
        }
    }
}

/// Returns the finding on the driver's notes about this machine's GPUs, if there are any.
fn gpus() -> Option<Item> {
    let note = Cluster::of_this_machine("").ok()?.note?;
    Some(Item::error("GPUs of this machine", note, "see what nvidia-smi says, and the driver's version there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_too_low_say_who_can_raise_them() {
        let of = |soft, hard, unit| enough("x", (soft, hard), 20 << 10, unit);
        assert!(of(u64::MAX, u64::MAX, Unit::One).remedy().is_none());
        let own = of(8 << 10, u64::MAX, Unit::KiB);
        assert!(own.remedy().is_some_and(|remedy| remedy.contains("to 20 KiB in the shell")) && !own.is_error());
        assert_eq!(own.value, "8 KiB, at most unlimited");
        let of_root = of(5, 6, Unit::One);
        assert!(of_root.remedy().is_some_and(|remedy| remedy.contains("root raise it to 20480 in")));
        assert_eq!(of_root.value, "5, at most 6");
    }

    #[test]
    fn a_certificate_that_ends_soon_is_found() {
        let of = |days| certificate("x", "tenant eva".to_owned(), days);
        assert!(of(Some(DAYS_MIN)).remedy().is_none() && of(None).remedy().is_none());
        assert_eq!(of(Some(DAYS_MIN)).value, "tenant eva, 30 days left");
        assert!(of(Some(DAYS_MIN - 1)).remedy().is_some_and(|remedy| remedy.contains("accord pki renew")));
        assert!(!of(Some(DAYS_MIN - 1)).is_error() && of(Some(-1)).is_error());
        assert_eq!(of(Some(-1)).value, "tenant eva, expired");
    }

    #[test]
    fn another_version_is_found() {
        let of = |version| same_version("p", Path::new("/p"), version, "0.1.0").remedy().map(str::to_owned);
        assert!(of(Some("0.1.0")).is_none());
        assert!(of(Some("0.2.0")).is_some_and(|remedy| remedy.contains("0.1.0")) && of(None).is_some());
    }

    #[test]
    fn an_mpi_that_does_not_fit_is_found() {
        let part = |fits| MpiPart::Here { built_for: "A 1".to_owned(), here: "A 2".to_owned(), fits };
        assert!(mpi_part(&part(true)).remedy().is_none());
        assert!(mpi_part(&part(false)).remedy().is_some_and(|remedy| remedy.contains("make mpi")));
        assert_eq!(mpi_part(&MpiPart::None("none".to_owned())).json()["status"], "absent");
    }

    #[test]
    fn keys_that_others_may_read_are_found() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let remedy = || {
            let items = cluster(folder.path().to_str(), Some("127.0.0.1:1"), Duration::ZERO);
            assert_eq!(items.len(), 1, "the coordinator is not asked without certificates");
            items[0].remedy().unwrap().to_owned()
        };
        assert!(remedy().contains("accord pki issue"), "there are none");
        let key = folder.path().join("tls.key");
        std::fs::write(&key, "k").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(remedy().starts_with("chmod 600 "));
        assert!(cluster(None, None, Duration::ZERO).is_empty());
    }
}
