//! Requests about reservations.

use super::{Coordinator, answered};
use crate::failure::{Failure, Result};
use accord_proto::v1::reservations_client::ReservationsClient;
use accord_proto::v1::{CreateReservationRequest, DeleteReservationRequest, ListReservationsRequest, Reservation};
use tonic::transport::Channel;

const VERSION: u32 = accord_proto::VERSION;

impl Coordinator {
    fn reservations_client(&self) -> ReservationsClient<Channel> {
        ReservationsClient::new(self.channel.clone())
    }

    /// Creates a reservation. Returns it with its first time.
    pub(crate) fn reserve(&mut self, request: CreateReservationRequest) -> Result<Reservation> {
        let reply = answered(&self.runtime, self.reservations_client().create_reservation(request));
        let reply = reply.map_err(|status| self.explain(&status))?;
        reply.reservation.ok_or_else(|| Failure::new("the coordinator has not answered with the reservation"))
    }

    /// Returns all reservations, and the coordinator's time.
    pub(crate) fn reservations(&mut self) -> Result<(Vec<Reservation>, u64)> {
        let (mut client, mut all, mut after) = (self.reservations_client(), Vec::new(), String::new());
        loop {
            let request = ListReservationsRequest { version: VERSION, after: after.clone() };
            let page = answered(&self.runtime, client.list_reservations(request));
            let page = page.map_err(|status| self.explain(&status))?;
            all.extend(page.reservations);
            match all.last() {
                Some(last) if page.more && last.name > after => after.clone_from(&last.name),
                _ => return Ok((all, page.unix_ms)),
            }
        }
    }

    /// Deletes a reservation.
    pub(crate) fn unreserve(&mut self, name: String) -> Result<()> {
        let request = DeleteReservationRequest { version: VERSION, name };
        let reply = answered(&self.runtime, self.reservations_client().delete_reservation(request));
        reply.map(drop).map_err(|status| self.explain(&status))
    }
}
