//! The C ABI of Accord: OpenACC's routines and the entry points of GCC's code, as a shared library
//! that a stock-GCC program has preloaded, or linked before libgomp.
//!
//! This crate converts calls to values and pointers to numbers. The rules are in `accord-runtime`, and the devices behind
//! `accord-client`. It is a guest in the program: it starts nothing before the first call, and prints nothing unless it ends
//! the program or output is requested.

#[macro_use]
mod jump;

mod abi_boundary;
mod api;
#[cfg_attr(test, allow(dead_code))]
mod bad_address;
mod blocks;
mod closing;
mod cluster;
mod company;
mod compare;
mod components;
mod device_address;
mod elf;
mod environment;
#[cfg_attr(test, allow(dead_code))]
mod explain;
mod fortran;
mod goacc;
mod gpus;
mod heap;
mod host_memory;
mod host_table;
mod images;
mod kernels;
mod last_thread;
mod loader;
mod mappings;
mod objects;
mod output;
mod pointer_updates;
mod process;
mod prof;
mod ptx;
mod raw_lock;
mod redirect;
mod report;
mod requested;
mod sanitizer;
mod settings;
mod source;
mod standard_descriptors;
#[cfg_attr(test, allow(dead_code))]
mod start_main;
mod thread;
mod thread_id;
mod trace;
mod unmapped;
mod worker_environment;
