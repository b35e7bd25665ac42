//! The targets. Each calls a few public entry points only, so that a decoder that moves costs a line here.

mod attest;
mod debuginfo;
mod directives;
mod fabric;
mod image;
mod lanes;
mod mpi;
mod proto;
mod same_host;
mod tls;
mod trace;
mod worker;

use crate::Target;

/// All of them.
pub static ALL: &[Target] = &[
    fabric::FRAMES,
    fabric::PAYLOADS,
    fabric::HEADERS,
    fabric::SESSION,
    mpi::MESSAGES,
    mpi::LANES,
    lanes::CONTROLS,
    lanes::TRANSFERS,
    lanes::HANDSHAKES,
    tls::HANDSHAKES,
    tls::RECORDS,
    same_host::MEETINGS,
    same_host::GATEWAYS,
    same_host::EXPORTS,
    image::BLOCKS,
    image::IMAGES,
    image::MEMORY_HANDLES,
    image::PTX,
    trace::TRACES,
    debuginfo::OBJECTS,
    directives::DIRECTIVES,
    proto::MESSAGES,
    attest::ANSWERS,
    worker::ANSWERS,
];

/// Takes a number off the front; 0 where there is none.
fn first(bytes: &mut &[u8]) -> u8 {
    let Some((first, rest)) = bytes.split_first() else { return 0 };
    *bytes = rest;
    *first
}
