//! The last step before a program: enters its host, arranges its end, and executes it.

use super::hosts::Hosts;
use super::parts::proflib_with_libacc;
use super::signals::Signals;
use crate::failure::Failure;
use crate::internal_args::{ExecArgs, RshArgs};
use accord_gpu::VISIBLE;
use accord_types::{Rank, settings};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Executes `args.program`; returns only if that fails.
pub(crate) fn exec(args: &ExecArgs) -> Failure {
    if let Err(failure) = arrange(args) {
        return failure;
    }
    let Some((program, rest)) = args.program.split_first() else {
        return Failure::new("no program");
    };
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(preload) = &args.preload {
        command.env("LD_PRELOAD", preload).envs(proflib_with_libacc(preload));
    }
    let mut node = nix::unistd::gethostname().unwrap_or_default();
    if let Some(hosts) = args.node_by_rank {
        let (rank, hosts) = (mpi_rank(), hosts.max(1));
        node = Hosts::name(rank % hosts).into();
        command.env(settings::NODE.name, &node);
        command.envs(place_on_host(rank, hosts));
    }
    if let Some(share) = (0..).zip(&args.gpus).find_map(|(index, share)| (node == *Hosts::name(index)).then_some(share))
    {
        command.env(VISIBLE, share);
    }
    Signals::unblock_all();
    let error = command.exec();
    Failure::start(program, &error)
}

/// Acts as mpirun's remote shell: `[options] HOST COMMAND...` executes COMMAND on HOST.
pub(crate) fn rsh(args: &RshArgs) -> Failure {
    let mut rest = args.rest.iter().skip_while(|arg| arg.as_encoded_bytes().starts_with(b"-"));
    let Some(host) = rest.next().and_then(|host| host.to_str()) else {
        return Failure::new("mpirun named no host");
    };
    let table = match std::fs::read_to_string(&args.hosts) {
        Ok(table) => table,
        Err(error) => return Failure::system(format!("can't read {}", args.hosts.display()), error),
    };
    let place = table.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next()? == host).then_some(())?;
        Some((fields.next()?.into(), fields.next()?.into()))
    });
    let Some((net, uts)) = place else {
        return Failure::new(format!("no host {host} in this run"));
    };
    // mpirun passes one shell command, as to ssh.
    let words: Vec<_> = rest.map(|word| word.to_string_lossy().into_owned()).collect();
    exec(&ExecArgs {
        net: Some(net),
        uts: Some(uts),
        program: vec!["/bin/sh".into(), "-c".into(), words.join(" ").into()],
        ..ExecArgs::default()
    })
}

fn arrange(args: &ExecArgs) -> Result<(), Failure> {
    for (path, kind) in [(&args.net, CloneFlags::CLONE_NEWNET), (&args.uts, CloneFlags::CLONE_NEWUTS)] {
        if let Some(path) = path {
            enter(path, kind)?;
        }
    }
    if let Some(parent) = args.parent {
        let signal = if args.gently { Signal::SIGTERM } else { Signal::SIGKILL };
        set_pdeathsig(signal).map_err(|error| Failure::system("can't follow the supervisor", error))?;
        // The parent may have died before the call above.
        if getppid().as_raw() != parent {
            return Err(Failure::new("the supervisor is gone"));
        }
    }
    Ok(())
}

fn enter(path: &Path, kind: CloneFlags) -> Result<(), Failure> {
    let what = || format!("can't enter {}", path.display());
    let file = File::open(path).map_err(|error| Failure::system(what(), error))?;
    setns(file, kind).map_err(|error| Failure::system(what(), error))
}

/// Returns the variables of a rank's place on its node that a launcher would set if the hosts were machines.
fn place_on_host(rank: u32, hosts: u32) -> Vec<(&'static str, String)> {
    let Some(job) = Rank::of_environment(|name| std::env::var(name).ok()) else { return Vec::new() };
    let (local_rank, local_size) = (rank / hosts, (job.size - rank % hosts).div_ceil(hosts));
    let names = [
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    ];
    names
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_some())
        .flat_map(|(rank, size)| [(rank, local_rank.to_string()), (size, local_size.to_string())])
        .collect()
}

fn mpi_rank() -> u32 {
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
        .unwrap_or(0)
}
