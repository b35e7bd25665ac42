//! The command line of this machine's mpirun.

use super::hosts::Hosts;
use super::parts::own_program;
use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// This machine's mpirun.
pub(crate) struct Mpirun {
    /// Whose options are known.
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    OpenMpi,
    /// MPICH's, and that of those who have it from there.
    Hydra,
    /// Of any other only `-np` is used.
    Other,
}

impl Mpirun {
    /// Finds out which mpirun is installed.
    pub(crate) fn find() -> Result<Self> {
        let output = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            Failure::new(format!("-np needs mpirun, which can't be started ({error}); install openmpi-bin"))
        })?;
        Ok(Self { kind: Kind::of(&String::from_utf8_lossy(&output.stdout)) })
    }

    /// For people.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::OpenMpi => "Open MPI's mpirun",
            Kind::Hydra => "MPICH's mpirun",
            Kind::Other => "mpirun",
        }
    }

    /// Whether it starts ranks of this MPI; else why not.
    pub(crate) fn starts_ranks_of(&self, mpi: &str) -> Result<(), String> {
        let fits = match self.kind {
            Kind::OpenMpi => mpi.starts_with("Open MPI"),
            Kind::Hydra => !mpi.starts_with("Open MPI"),
            Kind::Other => true,
        };
        if fits { Ok(()) } else { Err(format!("the agents' MPI is {mpi}, and this is {}", self.name())) }
    }

    fn is_open_mpi(&self) -> bool {
        self.kind == Kind::OpenMpi
    }

    /// `mpirun` for `ranks` ranks of `program` on this machine; `step` are options of `accord __exec`, which
    /// becomes the program.
    pub(crate) fn here(&self, ranks: u32, step: &[OsString], program: &[OsString]) -> Result<Vec<OsString>> {
        let mut line = self.base(ranks);
        line.extend(wrapped(step, None, program)?);
        Ok(line)
    }

    /// `mpirun` for `ranks` ranks of `program` over `hosts`, to be started on the first of them.
    /// `exported` names environment variables that all ranks get.
    pub(crate) fn over(
        &self,
        hosts: &Hosts,
        dir: &Path,
        ranks: u32,
        exported: &[&str],
        step: &[OsString],
        program: &[OsString],
    ) -> Result<Vec<OsString>> {
        if hosts.separate() && !self.is_open_mpi() {
            return Err(Failure::new(
                "mpirun over the hosts of a local cluster needs Open MPI; \
                 with --loopback any mpirun will do",
            ));
        }
        let mut line = self.base(ranks);
        if self.is_open_mpi() {
            // Ranks of a local cluster share cores: binding would put all on the same ones.
            line.extend(["--oversubscribe", "--bind-to", "none"].map(OsString::from));
            mca(&mut line, "orte_tmpdir_base", dir.as_os_str().to_owned());
            for name in exported {
                line.extend(["-x".into(), OsString::from(name)]);
            }
        }
        if hosts.separate() {
            let used = hosts.count().min(ranks);
            let list: Vec<_> = (0..used).map(|index| format!("{}:{ranks}", Hosts::name(index))).collect();
            line.extend(["--host".into(), OsString::from(list.join(",")), "--map-by".into(), "node".into()]);
            over_namespaces(&mut line, hosts, dir)?;
            line.extend(wrapped(step, None, program)?);
        } else {
            line.extend(wrapped(step, Some(hosts.count()), program)?);
        }
        Ok(line)
    }

    /// `mpirun` for one agent on each of `hosts`, to be started on the first of them, with these commands.
    pub(crate) fn agents(&self, hosts: &Hosts, dir: &Path, agents: &[(u32, Vec<OsString>)]) -> Result<Vec<OsString>> {
        if hosts.separate() && !self.is_open_mpi() {
            return Err(Failure::new(
                "--fabric mpi over namespaces needs Open MPI; with --loopback any mpirun will do",
            ));
        }
        let mut line: Vec<OsString> = vec!["mpirun".into()];
        if self.is_open_mpi() {
            if nix::unistd::geteuid().is_root() {
                line.push("--allow-run-as-root".into());
            }
            line.extend(["--oversubscribe", "--bind-to", "none"].map(OsString::from));
            mca(&mut line, "orte_tmpdir_base", dir.as_os_str().to_owned());
        }
        if hosts.separate() {
            over_namespaces(&mut line, hosts, dir)?;
        }
        for (at, (host, command)) in agents.iter().enumerate() {
            if at > 0 {
                line.push(":".into());
            }
            line.extend(["-np".into(), "1".into()]);
            if hosts.separate() {
                line.extend(["--host".into(), OsString::from(Hosts::name(*host))]);
            }
            line.extend_from_slice(command);
        }
        Ok(line)
    }

    /// `mpirun` for one of `command` on each of the hosts; without a file of hosts those of the allocation.
    pub(super) fn on_each(
        &self,
        hostfile: Option<&Path>,
        hosts: u32,
        exported: &[&str],
        command: &[OsString],
    ) -> Vec<OsString> {
        let mut line = self.base(hosts);
        match self.kind {
            // They take no core of their own: what mpirun binds is left to the program's ranks.
            Kind::OpenMpi => line.extend(["--map-by", "ppr:1:node", "--bind-to", "none"].map(OsString::from)),
            Kind::Hydra => line.extend(["-ppn", "1"].map(OsString::from)),
            Kind::Other => {}
        }
        self.over_site(&mut line, hostfile, exported);
        line.extend_from_slice(command);
        line
    }

    /// `mpirun` for so many ranks of `step` over the hosts, as the site places them.
    pub(super) fn ranks(
        &self,
        hostfile: Option<&Path>,
        ranks: u32,
        exported: &[&str],
        step: &[OsString],
    ) -> Vec<OsString> {
        let mut line = self.base(ranks);
        self.over_site(&mut line, hostfile, exported);
        line.extend_from_slice(step);
        line
    }

    fn over_site(&self, line: &mut Vec<OsString>, hostfile: Option<&Path>, exported: &[&str]) {
        if let Some(hostfile) = hostfile {
            let option = if self.kind == Kind::Hydra { "-f" } else { "--hostfile" };
            line.extend([option.into(), hostfile.into()]);
        }
        if self.is_open_mpi() {
            for name in exported {
                line.extend(["-x".into(), OsString::from(name)]);
            }
        }
    }

    fn base(&self, ranks: u32) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["mpirun".into(), "-np".into(), ranks.to_string().into()];
        if self.is_open_mpi() && nix::unistd::geteuid().is_root() {
            line.push("--allow-run-as-root".into());
        }
        line
    }
}

impl Kind {
    /// Of what `mpirun --version` prints.
    fn of(version: &str) -> Self {
        match version {
            text if text.contains("Open MPI") || text.contains("OpenRTE") => Self::OpenMpi,
            text if text.contains("HYDRA") || text.contains("Intel(R) MPI") => Self::Hydra,
            _ => Self::Other,
        }
    }
}

/// Has Open MPI come to hosts that are namespaces, and go between them as between machines.
fn over_namespaces(line: &mut Vec<OsString>, hosts: &Hosts, dir: &Path) -> Result<()> {
    for (name, value) in between_namespaces(hosts, dir)? {
        mca(line, name, value);
    }
    Ok(())
}

/// Open MPI's parameters for that.
pub(super) fn between_namespaces(hosts: &Hosts, dir: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let table = dir.join("hosts");
    std::fs::write(&table, hosts.table())
        .map_err(|error| Failure::system(format!("can't write {}", table.display()), error))?;
    let mut agent = own_program()?.into_os_string();
    agent.push(" __rsh --hosts ");
    agent.push(&table);
    Ok(vec![
        ("plm", "rsh".into()),
        ("plm_rsh_agent", agent),
        ("plm_rsh_no_tree_spawn", "1".into()),
        ("orte_keep_fqdn_hostnames", "1".into()),
        ("oob_tcp_if_include", Hosts::network().into()),
        ("btl_tcp_if_include", Hosts::network().into()),
        ("pml", "ob1".into()),
        ("btl", "tcp,self".into()),
    ])
}

fn mca(line: &mut Vec<OsString>, name: &str, value: impl Into<OsString>) {
    line.extend(["--mca".into(), name.into(), value.into()]);
}

/// Puts the step in between that sets what differs from rank to rank, and the library for the
/// ranks alone: mpirun and its daemons have no use for it.
pub(super) fn wrapped(step: &[OsString], node_by_rank: Option<u32>, program: &[OsString]) -> Result<Vec<OsString>> {
    let mut line: Vec<OsString> = vec![own_program()?.into(), "__exec".into()];
    line.extend_from_slice(step);
    if let Some(hosts) = node_by_rank {
        line.extend(["--node-by-rank".into(), hosts.to_string().into()]);
    }
    line.push("--".into());
    line.extend_from_slice(program);
    Ok(line)
}
