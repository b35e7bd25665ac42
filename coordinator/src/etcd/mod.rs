//! A client of etcd, version 3: ranges, transactions and leases.
//!
//! The messages are written here by hand ([`wire`]): the crate `etcd-client` compiles etcd's `.proto` files in each build, which needs `protoc`
//! on every machine that builds Accord, and brings its own TLS.

mod client;
mod connector;
mod error;
mod location;
pub(crate) mod wire;

pub(crate) use client::EtcdClient;
pub use error::EtcdError;
pub(crate) use location::end_of;
pub use location::{EtcdLocation, EtcdTls};
