//! The common parts of tests over whole programs: programs compiled by the machine's GCC, processes that can't hang,
//! and clusters on loopback addresses.
#![forbid(unsafe_code)]

mod agent_groups;
mod api_server;
mod cluster;
mod compile;
mod conformance;
pub mod coverage;
mod example;
mod hosts;
mod mpi;
mod munge;
mod outcome;
mod process;
mod process_group;
mod program;
mod separate_hosts;
mod shared_cluster;
mod stripped;
mod workspace;

pub use api_server::ApiServer;
pub use cluster::{Cluster, ClusterBuilder};
pub use compile::{Compiled, Optimize, Variant, compile, compile_mpi, compile_support, gcc};
pub use conformance::{Mode, trials};
pub use example::{example, repository_file, test_plugin, test_program};
pub use hosts::Hosts;
pub use mpi::{is_mpich, no_mpi};
pub use munge::Munged;
pub use outcome::Outcome;
pub use process::{Finished, Job, Running, leftovers};
pub use process_group::ProcessGroup;
pub use program::{Expect, Language, Program, programs};
pub use separate_hosts::SeparateHosts;
pub use stripped::stripped;
pub use workspace::{Tool, libacc, package_example, root, tool};

/// The result of a test's step; the error is a failure or an unmet precondition in words.
pub type Result<T, E = String> = std::result::Result<T, E>;
