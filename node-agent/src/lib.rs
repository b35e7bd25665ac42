//! The node agent: offers a machine's devices to the programs of a cluster.
//!
//! [`run`] registers with the coordinator, accepts connections and starts one executor process per session
//! ([`executor_process`], [`accord_executor`]). So a fault affects only its own tenant. A rank of an MPI world, which
//! belongs to one user, runs the executors in its own process.
#![deny(unsafe_code)]

mod abandoned;
mod accept;
mod accept_of_world;
mod accounts;
mod agent;
mod ask;
mod cgroup;
mod cgroup_controllers;
pub mod config;
mod control;
mod cores;
mod device_filter;
mod device_memory;
pub mod device_test;
mod devices;
mod drivers;
mod executor_here;
mod executor_output;
pub mod executor_process;
mod executor_reports;
mod gpu_files;
pub mod gpu_loads;
pub mod gpus;
mod hosting;
pub mod inventory;
pub mod keeper;
pub mod measure;
mod memory_service;
pub mod metrics;
pub mod mpi_native;
pub mod mpi_world;
pub mod node;
pub mod offered_gpus;
mod own_program;
mod process;
pub mod programs;
mod raised_limits;
mod remains;
mod saved_grants;
mod session_limits;
mod session_logs;
mod settings;
mod site_scripts;
mod spare;
mod supervise;
pub mod suspend_memory;
mod suspending;
pub mod topology;
mod turns;
pub mod users;

pub use agent::run;
