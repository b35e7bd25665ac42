//! Moves bytes between the program's memory and a GPU: the choice of a route, and slots of pinned memory with the threads that fill and empty them. Each file
//! depends only on those before it in this list.

pub(crate) mod copy_pool;
pub mod copy_route;
pub(crate) mod download;
pub(crate) mod fetched;
pub(crate) mod past_caches;
pub(crate) mod progress;
pub(crate) mod slot_pool;
pub(crate) mod upload;
