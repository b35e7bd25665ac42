//! Runs scripts on hosts that resemble a site: with mpirun or Slurm of this machine, and a shared folder.

use crate::{Finished, Job, Result, Tool, libacc, no_mpi, tool};
use std::path::Path;

/// Three hosts, `h1` to `h3`, that are network namespaces, as `accord run --local-cluster HxD --bare` makes them.
pub struct Hosts {
    folder: tempfile::TempDir,
}

/// `left`: waits until all processes of a run have ended, and prints the remaining ones. Process 1 is the hosts' own
/// supervisor.
const LEFT: &str = r#"
left() {
    for look in $(seq 1 100); do
        left=$(ps -e -o pid=,stat=,args= | awk '$1 != 1 && $2 !~ /Z/ && $3 ~ /accord|mpirun|orted|hydra|srun/')
        [ -n "$left" ] || break
        sleep 0.1
    done
    echo "left: $left"
    ls "$SHARED"
}
"#;

impl Hosts {
    /// Returns `None`, and prints why, if there are no namespaces, no MPI, or one of `programs` is missing.
    pub fn new(programs: &[&str]) -> Result<Option<Self>> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let hosts = Self { folder };
        std::fs::create_dir(hosts.folder.path().join("shared")).map_err(|error| error.to_string())?;
        let path = path()?;
        let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        let missing = programs.iter().find(|program| !is_there(program)).map(|program| format!("no {program} here"));
        let why = match no_mpi().or(missing) {
            Some(why) => Some(why),
            None => {
                let first = job()?.arg("hostname").run()?.stdout;
                (first.trim() != "h1").then(|| "no network namespaces here".to_owned())
            }
        };
        if let Some(why) = why {
            println!("skipped: {why}");
            return Ok(None);
        }
        Ok(Some(hosts))
    }

    /// Returns the folder `$W` of scripts, which contains `$SHARED`, the folder of `--shared`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script on the first host, after `with` has extended its job.
    pub fn run(&self, script: &str, arguments: &[&Path], with: impl FnOnce(Job) -> Job) -> Result<Finished> {
        let job = job()?.env("W", self.folder()).env("SHARED", self.folder().join("shared"));
        let job = job.env("ACCORD_CPU_DEVICES", "1").env("ACCORD_CPU_MEMORY", "128M");
        let job = with(job).args(["/bin/bash", "-c"]).arg(format!("{LEFT}{script}")).arg("bash");
        job.args(arguments).run()
    }
}

fn job() -> Result<Job> {
    let job = Job::new(tool(Tool::Accord)?).with_mpi().env("ACCORD_LIBACC", libacc()?).env("PATH", path()?);
    Ok(job.args(["run", "--local-cluster", "3x1", "--bare", "--"]))
}

/// Returns the search path of scripts: the tested programs first, and folders of daemons, too.
fn path() -> Result<String> {
    let accord = tool(Tool::Accord)?;
    let bin = accord.parent().unwrap_or(Path::new("/")).display();
    Ok(format!("{bin}:{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
}
