//! Bounds of the messages about reservations.

use super::{Bounded, NODE_DEVICES_MAX, PAGE_ITEMS_MAX, WHAT_IF_TEXT_MAX, all, within};
use crate::convert::Malformed;
use crate::v1;
use accord_types::texts::{NAME_MAX, WORDS_MAX};

/// Most accounts, and most users, of a reservation.
pub const MEMBERS_MAX: usize = 256;
/// Most nodes and devices of a reservation.
pub const TARGETS_MAX: usize = 1_024;

/// Checks the names of accounts or users.
fn members(list: &[String], field: &'static str) -> Result<(), Malformed> {
    within(list.len(), MEMBERS_MAX, field)?;
    list.iter().try_for_each(|name| within(name.len(), NAME_MAX, field))
}

impl Bounded for v1::ReservedTarget {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name, ordinal: _ } = self;
        within(node_name.len(), NAME_MAX, "ReservedTarget.node_name is too long")
    }
}

impl Bounded for v1::CreateReservationRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            version: _,
            name,
            targets,
            request,
            accounts,
            users,
            first,
            zone,
            lasts_ms: _,
            weekly: _,
            end: _,
            reason,
        } = self;
        within(name.len(), NAME_MAX, "CreateReservationRequest.name is too long")?;
        all(targets, TARGETS_MAX, "CreateReservationRequest.targets is too long")?;
        within(request.len(), WHAT_IF_TEXT_MAX, "CreateReservationRequest.request is too long")?;
        members(accounts, "CreateReservationRequest.accounts is too long")?;
        members(users, "CreateReservationRequest.users is too long")?;
        within(first.len(), NAME_MAX, "CreateReservationRequest.first is too long")?;
        within(zone.len(), NAME_MAX, "CreateReservationRequest.zone is too long")?;
        within(reason.len(), WORDS_MAX, "CreateReservationRequest.reason is too long")
    }
}

impl Bounded for v1::ReservedDevices {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name, ordinals } = self;
        within(node_name.len(), NAME_MAX, "ReservedDevices.node_name is too long")?;
        within(ordinals.len(), NODE_DEVICES_MAX, "ReservedDevices.ordinals is too long")
    }
}

impl Bounded for v1::Reservation {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            name,
            by,
            reason,
            what,
            devices,
            accounts,
            users,
            end: _,
            weekly: _,
            starts_unix_ms: _,
            ends_unix_ms: _,
            starts,
            ends,
            yours: _,
            hidden: _,
        } = self;
        within(name.len(), NAME_MAX, "Reservation.name is too long")?;
        within(by.len(), WORDS_MAX, "Reservation.by is too long")?;
        within(reason.len(), WORDS_MAX, "Reservation.reason is too long")?;
        within(what.len(), WORDS_MAX, "Reservation.what is too long")?;
        all(devices, PAGE_ITEMS_MAX, "Reservation.devices is too long")?;
        members(accounts, "Reservation.accounts is too long")?;
        members(users, "Reservation.users is too long")?;
        within(starts.len(), WORDS_MAX, "Reservation.starts is too long")?;
        within(ends.len(), WORDS_MAX, "Reservation.ends is too long")
    }
}

impl Bounded for v1::CreateReservationReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { reservation } = self;
        reservation.check()
    }
}

impl Bounded for v1::ListReservationsRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, after } = self;
        within(after.len(), NAME_MAX, "ListReservationsRequest.after is too long")
    }
}

impl Bounded for v1::ListReservationsReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { reservations, more: _, unix_ms: _ } = self;
        all(reservations, PAGE_ITEMS_MAX, "ListReservationsReply.reservations is too long")
    }
}

impl Bounded for v1::DeleteReservationRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, name } = self;
        within(name.len(), NAME_MAX, "DeleteReservationRequest.name is too long")
    }
}
