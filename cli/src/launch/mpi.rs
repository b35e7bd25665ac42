//! The command line of this machine's mpirun.

use super::host_list::HostFile;
use super::hosts::Hosts;
use super::parts::own_program;
use super::run_folder::RunFolder;
use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// This machine's mpirun.
pub(crate) struct Mpirun {
    /// The family of its options.
    kind: Kind,
    /// Whether mpirun ends all ranks at once when one dies, and has an option against that.
    lets_ranks_survive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    OpenMpi,
    /// MPICH's mpirun, and those derived from it.
    Hydra,
    /// Any other one, of which only `-np` is used.
    Other,
}

impl Mpirun {
    /// Finds out which mpirun is installed.
    pub(crate) fn find() -> Result<Self> {
        let output = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            Failure::new(format!("-np needs mpirun, which can't be started ({error}); install openmpi-bin or mpich"))
        })?;
        Ok(Self::of(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Determines the mpirun from its output for `--version`.
    fn of(version: &str) -> Self {
        // Intel's mpirun has the other options of MPICH's.
        Self { kind: Kind::of(version), lets_ranks_survive: version.contains("HYDRA") }
    }

    /// Returns the name for display.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::OpenMpi => "Open MPI's mpirun",
            Kind::Hydra => "MPICH's mpirun",
            Kind::Other => "mpirun",
        }
    }

    /// Checks that it starts ranks of this MPI; otherwise returns the reason.
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

    /// Returns the command line for `ranks` ranks of `program` on this machine. `step` are options of `accord __exec`,
    /// which executes the program.
    pub(crate) fn here(&self, ranks: u32, step: &[OsString], program: &[OsString]) -> Result<Vec<OsString>> {
        let mut line = self.base(ranks);
        line.extend(wrapped(step, None, program)?);
        Ok(line)
    }

    /// Returns the command line for `ranks` ranks of `program` over `hosts`, to be started on the first of them.
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
        self.knows_hosts(hosts)?;
        let mut line = self.base(ranks);
        self.unbound(&mut line, dir);
        if self.is_open_mpi() {
            for name in exported {
                line.extend(["-x".into(), OsString::from(name)]);
            }
        }
        if hosts.separate() {
            let used = hosts.count().min(ranks);
            let list: Vec<_> = (0..used).map(|index| format!("{}:{ranks}", Hosts::name(index))).collect();
            let list = OsString::from(list.join(","));
            if self.is_open_mpi() {
                line.extend(["--host".into(), list, "--map-by".into(), "node".into()]);
                over_namespaces(&mut line, hosts, dir)?;
            } else {
                line.extend(["-hosts".into(), list, "-ppn".into(), "1".into()]);
            }
            line.extend(wrapped(step, None, program)?);
        } else {
            line.extend(wrapped(step, Some(hosts.count()), program)?);
        }
        Ok(line)
    }

    /// Returns the command line for one agent on each of `hosts`, with its command, to be started on the first of them.
    pub(crate) fn agents(&self, hosts: &Hosts, dir: &Path, agents: &[(u32, Vec<OsString>)]) -> Result<Vec<OsString>> {
        self.knows_hosts(hosts)?;
        let mut line: Vec<OsString> = vec!["mpirun".into()];
        if self.is_open_mpi() && nix::unistd::geteuid().is_root() {
            line.push("--allow-run-as-root".into());
        }
        self.let_ranks_survive(&mut line);
        self.unbound(&mut line, dir);
        if hosts.separate() {
            if self.is_open_mpi() {
                over_namespaces(&mut line, hosts, dir)?;
            } else {
                // Hydra distributes one list of hosts over all parts.
                let list: Vec<_> = agents.iter().map(|(host, _)| Hosts::name(*host)).collect();
                line.extend(["-hosts".into(), OsString::from(list.join(",")), "-ppn".into(), "1".into()]);
            }
        }
        for (at, (host, command)) in agents.iter().enumerate() {
            if at > 0 {
                line.push(":".into());
            }
            line.extend(["-np".into(), "1".into()]);
            if hosts.separate() && self.is_open_mpi() {
                line.extend(["--host".into(), OsString::from(Hosts::name(*host))]);
            }
            line.extend_from_slice(command);
        }
        Ok(line)
    }

    /// Returns the command line for one `command` on each host of the file, or of the allocation without a file.
    pub(super) fn on_each(
        &self,
        hostfile: Option<&Path>,
        hosts: u32,
        exported: &[&str],
        command: &[OsString],
    ) -> Vec<OsString> {
        let mut line = self.base(hosts);
        self.let_ranks_survive(&mut line);
        match self.kind {
            // Agents are not bound, so that mpirun's binding is left to the program's ranks.
            Kind::OpenMpi => line.extend(["--map-by", "ppr:1:node", "--bind-to", "none"].map(OsString::from)),
            Kind::Hydra => line.extend(["-ppn", "1", "-bind-to", "none"].map(OsString::from)),
            Kind::Other => {}
        }
        self.over_site(&mut line, hostfile, exported);
        line.extend_from_slice(command);
        line
    }

    /// Returns the command line for this many ranks of `step` over the hosts, placed by the site's defaults.
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

    /// Returns the user's file of hosts in this mpirun's format: the file itself, or a converted one in `dir`.
    pub(super) fn hostfile(&self, file: &Path, text: &str, dir: &Path) -> Result<PathBuf> {
        let parsed = HostFile::parse(text);
        let own = match self.kind {
            Kind::OpenMpi => parsed.for_open_mpi(),
            Kind::Hydra => parsed.for_hydra().map(Some),
            Kind::Other => Ok(None),
        };
        let Some(own) = own.map_err(|why| Failure::new(format!("{}, {why}", file.display())))? else {
            return Ok(file.to_owned());
        };
        let path = dir.join("hostfile");
        std::fs::write(&path, own)
            .map_err(|error| Failure::system(format!("can't write {}", path.display()), error))?;
        Ok(path)
    }

    /// Returns the environment with which mpirun reaches these hosts.
    pub(super) fn environment(&self, hosts: &Hosts, dir: &Path) -> Result<Vec<(&'static str, OsString)>> {
        if hosts.separate() && self.kind == Kind::Hydra { of_hydra(hosts, dir) } else { Ok(Vec::new()) }
    }

    fn knows_hosts(&self, hosts: &Hosts) -> Result<()> {
        if hosts.separate() && self.kind == Kind::Other {
            return Err(Failure::new(
                "MPI over the hosts of a local cluster needs the mpirun of Open MPI or MPICH; \
                 with --loopback any mpirun will do",
            ));
        }
        Ok(())
    }

    /// Disables binding: processes of a local cluster share cores, and would all be bound to the same ones.
    fn unbound(&self, line: &mut Vec<OsString>, dir: &Path) {
        match self.kind {
            Kind::OpenMpi => {
                line.extend(["--oversubscribe", "--bind-to", "none"].map(OsString::from));
                folders(dir).into_iter().for_each(|(name, folder)| mca(line, name, folder));
            }
            Kind::Hydra => line.extend(["-bind-to", "none"].map(OsString::from)),
            Kind::Other => {}
        }
    }

    /// Lets ranks outlive a dead one: the coordinator, which then knows which agent died, ends the others.
    fn let_ranks_survive(&self, line: &mut Vec<OsString>) {
        if self.lets_ranks_survive {
            line.push("-disable-auto-cleanup".into());
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
    /// Determines the kind from the output of `mpirun --version`.
    fn of(version: &str) -> Self {
        match version {
            text if text.contains("Open MPI") || text.contains("OpenRTE") => Self::OpenMpi,
            text if text.contains("HYDRA") || text.contains("Intel(R) MPI") => Self::Hydra,
            _ => Self::Other,
        }
    }
}

/// Returns Open MPI's parameters that name the folders of its files.
fn folders(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let mut all = vec![("orte_tmpdir_base", dir.to_owned())];
    let shared_memory = RunFolder::of_shared_memory(dir);
    if shared_memory.is_dir() {
        // The parameter's name up to Open MPI 4, and since then.
        let names = ["btl_vader_backing_directory", "btl_sm_backing_directory"];
        all.extend(names.map(|name| (name, shared_memory.clone())));
    }
    all
}

/// Returns the environment that gives an Open MPI started by the program folders of this run. Open MPI names its files by host and process
/// number, which are the same in other runs at that time.
pub(super) fn own_folders(dir: &Path) -> Vec<(String, OsString)> {
    let all = folders(dir).into_iter().map(|(name, folder)| (format!("OMPI_MCA_{name}"), folder.into()));
    all.filter(|(name, _)| std::env::var_os(name).is_none()).collect()
}

/// Makes Open MPI start processes on hosts that are namespaces, and connect them as machines.
fn over_namespaces(line: &mut Vec<OsString>, hosts: &Hosts, dir: &Path) -> Result<()> {
    for (name, value) in of_open_mpi(hosts, dir)? {
        mca(line, name, value);
    }
    Ok(())
}

/// Returns the environment that does the same for any mpirun that the program starts.
pub(super) fn between_namespaces(hosts: &Hosts, dir: &Path) -> Result<Vec<(String, OsString)>> {
    let open_mpi = of_open_mpi(hosts, dir)?.into_iter().map(|(name, value)| (format!("OMPI_MCA_{name}"), value));
    Ok(open_mpi.chain(of_hydra(hosts, dir)?.into_iter().map(|(name, value)| (name.to_owned(), value))).collect())
}

/// Returns the program `accord __rsh`, which enters a host, and its first arguments.
fn remote_shell(hosts: &Hosts, dir: &Path) -> Result<(OsString, OsString)> {
    let table = dir.join("hosts");
    std::fs::write(&table, hosts.table())
        .map_err(|error| Failure::system(format!("can't write {}", table.display()), error))?;
    let mut arguments = OsString::from("__rsh --hosts ");
    arguments.push(&table);
    Ok((own_program()?.into(), arguments))
}

/// Returns MPICH's variables for hosts that are namespaces; its mpirun passes them to all ranks.
fn of_hydra(hosts: &Hosts, dir: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let (program, arguments) = remote_shell(hosts, dir)?;
    let mut all = vec![
        ("HYDRA_LAUNCHER", "rsh".into()),
        ("HYDRA_LAUNCHER_EXEC", program),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", arguments),
        // The hosts' names can't be resolved.
        ("HYDRA_IFACE", Hosts::INTERFACE.into()),
    ];
    // Values that the user has set stay. UCX must be able to use shared memory, because Debian's MPICH 4.0 sometimes
    // hangs in MPI_Finalize over TCP alone, with or without Accord.
    let between = [("UCX_NET_DEVICES", Hosts::INTERFACE), ("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", Hosts::INTERFACE)];
    let unset = between.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    all.extend(unset.map(|(name, value)| (name, value.into())));
    Ok(all)
}

/// Returns Open MPI's parameters for hosts that are namespaces.
fn of_open_mpi(hosts: &Hosts, dir: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let (mut agent, arguments) = remote_shell(hosts, dir)?;
    agent.push(" ");
    agent.push(arguments);
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

/// Inserts the step that sets each rank's own variables, and preloads the library for ranks only, not for mpirun and
/// its daemons.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[OsString]) -> String {
        line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn mpi_implementation_is_identified_by_its_version_text() {
        assert_eq!(Kind::of("mpirun (Open MPI) 4.1.4\n\nReport bugs to ..."), Kind::OpenMpi);
        assert_eq!(Kind::of("HYDRA build details:\n    Version:           4.0.2\n"), Kind::Hydra);
        assert_eq!(Kind::of("Intel(R) MPI Library for Linux* OS, Version 2021.11"), Kind::Hydra);
        assert_eq!(Kind::of(""), Kind::Other);
    }

    #[test]
    fn one_agent_a_node_is_said_in_the_words_of_each() {
        let line =
            |version| words(&Mpirun::of(version).on_each(Some(Path::new("f")), 2, &["ACCORD_LOG"], &["agent".into()]));
        let open_mpi = line("mpirun (Open MPI) 4.1.4");
        assert!(
            open_mpi.ends_with("--map-by ppr:1:node --bind-to none --hostfile f -x ACCORD_LOG agent"),
            "{open_mpi}"
        );
        // Intel's mpirun passes the environment on by itself.
        assert_eq!(line("Intel(R) MPI Library"), "mpirun -np 2 -ppn 1 -bind-to none -f f agent");
        assert_eq!(line("HYDRA build details:"), "mpirun -np 2 -disable-auto-cleanup -ppn 1 -bind-to none -f f agent");
        assert_eq!(line(""), "mpirun -np 2 --hostfile f agent");
    }

    #[test]
    fn an_mpirun_of_the_program_has_folders_of_its_run() {
        let dir = Path::new("/tmp/accord-run-of-a-test");
        let found = own_folders(dir);
        assert_eq!(found, [("OMPI_MCA_orte_tmpdir_base".to_owned(), OsString::from(dir))]);
    }

    #[test]
    fn the_file_of_hosts_becomes_one_of_the_launchers_own() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|error| Failure::system("a folder", error))?;
        let file = folder.path().join("user");
        let own = |kind, text: &str| Mpirun { kind, lets_ranks_survive: false }.hostfile(&file, text, folder.path());
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(read(own(Kind::Hydra, "# all\nn1 slots=2\nn2\n")?), "n1:2\nn2\n");
        assert_eq!(read(own(Kind::OpenMpi, "n1:2\n")?), "n1 slots=2\n");
        assert_eq!(own(Kind::OpenMpi, "n1 slots=2 max_slots=4\n")?, file);
        assert_eq!(own(Kind::Other, "n1 slots=2\n")?, file);
        let why =
            own(Kind::Hydra, "n1\nn2 max_slots=4\n").map_or_else(|failure| failure.to_string(), |_| String::new());
        assert!(why.starts_with(&format!("{}, line 2: ", file.display())) && why.contains("max_slots=4"), "{why}");
        Ok(())
    }
}
