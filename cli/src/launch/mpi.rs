//! The command line of this machine's mpirun.

use super::hosts::Hosts;
use super::parts::own_program;
use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// This machine's mpirun.
pub(crate) struct Mpirun {
    /// Open MPI's options are known; of any other only `-np` is used.
    open_mpi: bool,
}

impl Mpirun {
    /// Finds out which mpirun is installed.
    pub(crate) fn find() -> Result<Self> {
        let output = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            Failure::new(format!("-np needs mpirun, which can't be started ({error}); install openmpi-bin"))
        })?;
        let open_mpi = String::from_utf8_lossy(&output.stdout).contains("Open MPI");
        Ok(Self { open_mpi })
    }

    /// `mpirun` for `ranks` ranks of `program` on this machine; `step` are options of `accord __exec`, which
    /// becomes the program.
    pub(crate) fn here(&self, ranks: u32, step: &[OsString], program: &[OsString]) -> Result<Vec<OsString>> {
        let mut line = self.base(ranks);
        wrap(&mut line, step, None)?;
        line.extend_from_slice(program);
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
        if hosts.separate() && !self.open_mpi {
            return Err(Failure::new(
                "mpirun over the hosts of a local cluster needs Open MPI; \
                 with --loopback any mpirun will do",
            ));
        }
        let mut line = self.base(ranks);
        if self.open_mpi {
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
            wrap(&mut line, step, None)?;
        } else {
            wrap(&mut line, step, Some(hosts.count()))?;
        }
        line.extend_from_slice(program);
        Ok(line)
    }

    /// `mpirun` for one agent on each of `hosts`, to be started on the first of them, with these commands.
    pub(crate) fn agents(&self, hosts: &Hosts, dir: &Path, agents: &[(u32, Vec<OsString>)]) -> Result<Vec<OsString>> {
        if hosts.separate() && !self.open_mpi {
            return Err(Failure::new(
                "--fabric mpi over namespaces needs Open MPI; with --loopback any mpirun will do",
            ));
        }
        let mut line: Vec<OsString> = vec!["mpirun".into()];
        if self.open_mpi {
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

    fn base(&self, ranks: u32) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["mpirun".into(), "-np".into(), ranks.to_string().into()];
        if self.open_mpi && nix::unistd::geteuid().is_root() {
            line.push("--allow-run-as-root".into());
        }
        line
    }
}

/// Has Open MPI come to hosts that are namespaces, and go between them as between machines.
fn over_namespaces(line: &mut Vec<OsString>, hosts: &Hosts, dir: &Path) -> Result<()> {
    let table = dir.join("hosts");
    std::fs::write(&table, hosts.table())
        .map_err(|error| Failure::system(format!("can't write {}", table.display()), error))?;
    let mut agent = own_program()?.into_os_string();
    agent.push(" __rsh --hosts ");
    agent.push(&table);
    mca(line, "plm", "rsh");
    mca(line, "plm_rsh_agent", agent);
    mca(line, "plm_rsh_no_tree_spawn", "1");
    mca(line, "orte_keep_fqdn_hostnames", "1");
    mca(line, "oob_tcp_if_include", Hosts::network());
    mca(line, "btl_tcp_if_include", Hosts::network());
    mca(line, "pml", "ob1");
    mca(line, "btl", "tcp,self");
    Ok(())
}

fn mca(line: &mut Vec<OsString>, name: &str, value: impl Into<OsString>) {
    line.extend(["--mca".into(), name.into(), value.into()]);
}

/// Puts the step in between that sets what differs from rank to rank, and the library for the
/// ranks alone: mpirun and its daemons have no use for it.
fn wrap(line: &mut Vec<OsString>, step: &[OsString], node_by_rank: Option<u32>) -> Result<()> {
    line.extend([own_program()?.into(), "__exec".into()]);
    line.extend_from_slice(step);
    if let Some(hosts) = node_by_rank {
        line.extend(["--node-by-rank".into(), hosts.to_string().into()]);
    }
    line.push("--".into());
    Ok(())
}
