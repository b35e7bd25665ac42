//! Starts a program, with a cluster of its own or without, and cleans up after it.
//!
//! `accord run` (the *launcher*) either becomes the program, or starts a *supervisor*: a process that holds the run
//! together. The launcher only passes signals on and waits. With namespaces the supervisor is the first process of a
//! process namespace, so that its end, by any cause, ends everything that the run started. Without namespaces it adopts
//! orphans and kills them. A pipe signals the launcher's death to it. Network and UTS namespaces have no names: the
//! supervisor's descriptors and its children hold them.

mod cluster;
mod descendants;
mod devices;
mod died;
mod exec;
mod fabric;
mod held_job;
mod host_list;
mod hosts;
mod keeper;
mod limits;
mod mpi;
mod mpi_part;
mod parts;
mod processes;
mod rank_times;
mod run_folder;
mod signals;
mod site;
mod site_cluster;
mod srun;
mod supervise;
mod unreached;

pub(crate) use descendants::{ask_descendants, kill_descendants};
pub(crate) use devices::print_gpus;
pub(crate) use exec::{exec, rsh};
pub(crate) use held_job::{GrantedJob, JobRequest};
pub(crate) use hosts::can_have_namespaces;
pub(crate) use keeper::{keep, kept};
pub(crate) use limits::lift;
pub(crate) use mpi::Mpirun;
pub(crate) use mpi_part::MpiPart;
pub(crate) use parts::{find_include, find_libacc, find_program, own_program, preload_with, proflib_with_libacc};
pub(crate) use run_folder::RunFolder;
pub(crate) use signals::{Event, Signals, exit_code};
pub(crate) use site::Site;
pub(crate) use srun::Srun;
pub(crate) use supervise::supervise;
pub(crate) use unreached::obstacle;
