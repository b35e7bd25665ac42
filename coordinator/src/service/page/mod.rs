//! The cluster as a web page that changes nothing: rows of Cluster.Watch, how busy the devices were in the last hour, and use by account.
//!
//! A browser is known by a cookie, which it gets for a code of `accord page`. Without one it is a stranger's.

mod answers;
mod connections;
mod events;
mod files;
mod grants;
mod guard;
mod listener;
mod past;
mod query;
mod routes;
mod site;
mod write_deadline;

pub(super) use connections::{refer, serve};
pub use listener::{AnonymousAccess, PageListener, page_url};
pub(super) use site::Site;
