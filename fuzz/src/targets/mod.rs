//! The targets. Each calls only a few public functions, so that a moved decoder changes one line here.

mod attest;
mod debuginfo;
mod directives;
mod entrance;
mod fabric;
mod figures;
mod handed_over;
mod history;
mod host_list;
mod image;
mod jobs;
mod lanes;
mod measurement;
mod mpi;
mod names;
mod picture;
mod proto;
mod same_host;
mod scheduler;
mod tls;
mod trace;
mod use_report;
mod worker;

use crate::Target;

/// All targets.
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
    measurement::MEASUREMENTS,
    tls::HANDSHAKES,
    tls::RECORDS,
    same_host::MEETINGS,
    same_host::GATEWAYS,
    same_host::EXPORTS,
    handed_over::HANDOVERS,
    handed_over::RINGS,
    image::BLOCKS,
    image::IMAGES,
    image::MEMORY_HANDLES,
    image::PTX,
    trace::TRACES,
    debuginfo::OBJECTS,
    directives::DIRECTIVES,
    picture::PICTURES,
    proto::MESSAGES,
    attest::ANSWERS,
    worker::ANSWERS,
    use_report::REPORTS,
    figures::FIGURES,
    names::CERTIFICATES,
    names::SETTINGS,
    entrance::PROTOCOLS,
    host_list::HOSTS,
    scheduler::REQUESTS,
    scheduler::POLICIES,
    history::HISTORIES,
];

/// Takes a number from the front, or 0 if there is none.
fn first(bytes: &mut &[u8]) -> u8 {
    let Some((first, rest)) = bytes.split_first() else { return 0 };
    *bytes = rest;
    *first
}
