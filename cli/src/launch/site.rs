//! The nodes of a run, and the launcher of processes on them: the site's mpirun with a file of hosts, or Slurm.

use super::host_list::HostFile;
use super::mpi::Mpirun;
use super::mpi_part::MpiPart;
use super::srun::Srun;
use crate::args::{Launcher, RunArgs};
use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Slurm's variable for the nodes of this process's allocation.
const NODELIST: &str = "SLURM_JOB_NODELIST";

/// The nodes of a run, and the launcher that starts processes there.
pub(crate) struct Site {
    nodes: Vec<String>,
    /// The file in the launcher's format.
    hostfile: Option<PathBuf>,
    starter: Starter,
    part: MpiPart,
}

/// The launcher of processes on the nodes.
enum Starter {
    Mpirun(Mpirun),
    Srun(Srun),
}

/// The source of a run's nodes.
enum Source<'a> {
    File(&'a Path),
    /// Slurm's list.
    Slurm(String),
}

impl<'a> Source<'a> {
    fn of(args: &'a RunArgs) -> Option<Self> {
        if args.local_cluster.is_some() || args.np.is_none() {
            return None;
        }
        if let Some(file) = &args.hostfile {
            return Some(Self::File(file));
        }
        // An existing cluster is used as it is.
        let has_cluster = std::env::var_os(accord_types::settings::COORDINATOR.name).is_some();
        let list = std::env::var(NODELIST).ok().filter(|list| !list.is_empty() && !has_cluster);
        list.map(Self::Slurm)
    }
}

impl Site {
    /// Whether a run requests several nodes.
    pub(crate) fn is_asked_for(args: &RunArgs) -> bool {
        Source::of(args).is_some()
    }

    /// Returns the nodes of a run over several; `None` for another run. Writes files for the launcher to `dir`.
    ///
    /// # Errors
    /// Returns an error if the hosts can't be read, or the launcher is missing.
    pub(crate) fn find(args: &RunArgs, dir: &Path) -> Result<Option<Self>> {
        let (nodes, file) = match Source::of(args) {
            None => return Ok(None),
            Some(Source::File(file)) => {
                let text = read(file)?;
                (hosts_of_file(file, &text)?, Some((file, text)))
            }
            Some(Source::Slurm(list)) => (hosts_of_slurm(&list)?, None),
        };
        let part = MpiPart::find();
        let srun = || Srun::find(part.built_for());
        let starter = match args.launcher {
            Launcher::Srun => Starter::Srun(srun()?),
            Launcher::Auto if args.hostfile.is_none() => match srun().ok().filter(Srun::speaks_to_ranks) {
                Some(srun) => Starter::Srun(srun),
                None => Starter::Mpirun(Mpirun::find()?),
            },
            Launcher::Auto | Launcher::Mpirun => Starter::Mpirun(Mpirun::find()?),
        };
        let hostfile = match (&starter, file) {
            (Starter::Mpirun(mpirun), Some((file, text))) => Some(mpirun.hostfile(file, &text, dir)?),
            (Starter::Mpirun(_) | Starter::Srun(_), _) => None,
        };
        Ok(Some(Self { nodes, hostfile, starter, part }))
    }

    /// Returns the MPI of the agents' part.
    pub(super) fn part(&self) -> &MpiPart {
        &self.part
    }

    /// Returns the number of nodes.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// Returns the launcher's name for display.
    pub(crate) fn launcher(&self) -> String {
        match &self.starter {
            Starter::Mpirun(mpirun) => mpirun.name().to_owned(),
            Starter::Srun(srun) => srun.name(),
        }
    }

    /// Checks that this launcher starts ranks of the MPI of the agents' part; otherwise returns the reason.
    pub(super) fn starts_ranks_of_part(&self) -> Result<(), String> {
        self.part.started_by(|mpi| match &self.starter {
            Starter::Mpirun(mpirun) => mpirun.starts_ranks_of(mpi),
            Starter::Srun(srun) => srun.starts_ranks_of(mpi),
        })
    }

    /// Returns the command that starts one agent on each node. `exported` names the environment variables that they
    /// need.
    pub(crate) fn agents(&self, exported: &[&str], agent: &[OsString]) -> Vec<OsString> {
        match &self.starter {
            Starter::Mpirun(mpirun) => mpirun.on_each(self.hostfile.as_deref(), self.count(), exported, agent),
            Starter::Srun(srun) => srun.on_each(self.count(), agent),
        }
    }

    /// Returns the command that starts the program's ranks; `step` is executed for each.
    pub(crate) fn ranks(&self, ranks: u32, exported: &[&str], step: &[OsString]) -> Vec<OsString> {
        match &self.starter {
            Starter::Mpirun(mpirun) => mpirun.ranks(self.hostfile.as_deref(), ranks, exported, step),
            Starter::Srun(srun) => srun.ranks(ranks, step),
        }
    }

    /// Returns an address of this machine that the nodes can reach: that of the first network interface, or `chosen`.
    pub(crate) fn own_address(chosen: Option<IpAddr>) -> Result<IpAddr> {
        if let Some(chosen) = chosen {
            return Ok(chosen);
        }
        let interfaces =
            nix::ifaddrs::getifaddrs().map_err(|error| Failure::system("can't list network interfaces", error))?;
        let addresses = interfaces.filter_map(|interface| {
            let up = interface.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP);
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            let v6 = address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()));
            v4.or(v6).filter(|_| up)
        });
        let mut usable: Vec<IpAddr> = addresses.filter(is_of_network).collect();
        // IPv4 addresses first.
        usable.sort_by_key(IpAddr::is_ipv6);
        usable.first().copied().ok_or_else(|| {
            Failure::new("this machine has no address that other nodes could reach; name one with --address")
        })
    }
}

/// Whether an address is neither loopback nor link-local.
fn is_of_network(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::system(format!("can't read the hosts in {}", file.display()), error))
}

fn hosts_of_file(file: &Path, text: &str) -> Result<Vec<String>> {
    let hosts = HostFile::parse(text).names();
    if hosts.is_empty() {
        return Err(Failure::new(format!("{} names no host", file.display())));
    }
    Ok(hosts)
}

fn hosts_of_slurm(list: &str) -> Result<Vec<String>> {
    let output = Command::new("scontrol")
        .args(["show", "hostnames", list])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::start("scontrol", &error))?;
    let names: Vec<_> = String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect();
    if !output.status.success() || names.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(format!("scontrol does not say which nodes {list} are: {why}")));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_not_offered_to_other_machines() {
        let of = |text: &str| is_of_network(&text.parse().unwrap());
        assert!(of("10.77.0.1") && of("fd00::1") && of("2001:db8::1"));
        assert!(!of("127.0.0.1") && !of("::1") && !of("169.254.1.1") && !of("fe80::1"));
    }
}
