//! The reservations service, for administrators.

use super::caller::Caller;
use super::driver::{Driver, unix_ms};
use super::groups::Groups;
use super::page_space::PageSpace;
use super::viewer::Viewer;
use accord_cluster::{Input, NewReservation, ReservationView, ReserveError, ReservedTarget};
use accord_proto::convert::{Malformed, check_version};
use accord_proto::v1;
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::texts::{WORDS_MAX, cut};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The service for reservations.
pub(super) struct Reservations {
    driver: Arc<Driver>,
    groups: Arc<Groups>,
}

impl Reservations {
    pub(super) fn new(driver: Arc<Driver>, groups: Arc<Groups>) -> Self {
        Self { driver, groups }
    }
}

#[tonic::async_trait]
impl v1::reservations_server::Reservations for Reservations {
    async fn create_reservation(
        &self,
        request: Request<v1::CreateReservationRequest>,
    ) -> Result<Response<v1::CreateReservationReply>, Status> {
        let user_name = Caller::check(&request, Act::ChangeReservations)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        let (name, new) = (request.name.clone(), new_reservation(request, user_name.clone())?);
        let now = self.driver.now();
        let made = self.driver.decide(|cluster| {
            let checked = cluster.check_reservation(now, new)?;
            Ok::<_, ReserveError>(Input::Reserve(Box::new(checked)))
        });
        if let Err(why) = made {
            let status = refusal(why);
            tracing::warn!(target: AUDIT, "{user_name} is refused the reservation {name:?}: {}", status.message());
            return Err(status);
        }
        self.driver.durable().await?;
        let now = self.driver.now();
        let view = self.driver.with_cluster(|cluster| cluster.reservation(now, &name));
        Ok(Response::new(v1::CreateReservationReply { reservation: view.map(message) }))
    }

    async fn list_reservations(
        &self,
        request: Request<v1::ListReservationsRequest>,
    ) -> Result<Response<v1::ListReservationsReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::SeeJobs)?);
        let request = request.into_inner();
        check_version(request.version)?;
        let now = self.driver.now();
        let mut reply = v1::ListReservationsReply { unix_ms: unix_ms(), ..v1::ListReservationsReply::default() };
        if let Some(user) = &viewer.user {
            self.groups.notify(&self.driver, user).await;
        }
        self.driver.with_cluster(|cluster| {
            let user = viewer.user.as_deref();
            let accounts = user.map(|user| cluster.accounts_above(user)).unwrap_or_default();
            let hidden = viewer.only(cluster.others_jobs()).is_some();
            let after = cluster.reservations(now, &request.after).map(|view| {
                let is_named = user.is_some_and(|user| view.users.iter().any(|member| member == user));
                let yours = is_named || view.accounts.iter().any(|account| accounts.contains(account.as_str()));
                seen_by(view, yours, hidden)
            });
            reply.more = PageSpace::new().fill(&mut reply.reservations, (0..).zip(after)).is_some();
        });
        Ok(Response::new(reply))
    }

    async fn delete_reservation(
        &self,
        request: Request<v1::DeleteReservationRequest>,
    ) -> Result<Response<v1::DeleteReservationReply>, Status> {
        let by = Caller::check(&request, Act::ChangeReservations)?.called();
        let v1::DeleteReservationRequest { version, name } = request.into_inner();
        check_version(version)?;
        let removed = self.driver.decide(|cluster| match cluster.has_reservation(&name) {
            true => Ok(Input::Unreserve { name: name.clone(), by: by.clone() }),
            false => Err(ReserveError::Unknown(format!("there is no reservation {name}"))),
        });
        if let Err(why) = removed {
            let status = refusal(why);
            tracing::warn!(target: AUDIT, "{by} is refused the end of the reservation {name:?}: {}", status.message());
            return Err(status);
        }
        self.driver.durable().await?;
        Ok(Response::new(v1::DeleteReservationReply {}))
    }
}

fn new_reservation(request: v1::CreateReservationRequest, by: String) -> Result<NewReservation, Status> {
    let targets = request.targets.into_iter().map(|target| (target.node_name, target.ordinal));
    let targets: Vec<(String, Option<u32>)> = targets.collect();
    let devices = match (targets.is_empty(), request.request.is_empty()) {
        (true, true) => ReservedTarget::All,
        (true, false) => ReservedTarget::Request(request.request),
        (false, true) => ReservedTarget::Listed(targets),
        (false, false) => return Err(Malformed("a reservation with nodes and a request").into()),
    };
    Ok(NewReservation {
        name: request.name,
        by,
        reason: request.reason,
        devices,
        accounts: request.accounts,
        users: request.users,
        end_jobs: request.end,
        first: request.first,
        zone: request.zone,
        lasts_ms: request.lasts_ms,
        weekly: request.weekly,
    })
}

fn refusal(why: ReserveError) -> Status {
    match why {
        ReserveError::Malformed(why) => Status::invalid_argument(why),
        ReserveError::Unknown(why) => {
            Status::not_found(format!("{why}; see `accord info` and `accord reservation list`"))
        }
        ReserveError::InTheWay(why) => Status::failed_precondition(why),
    }
}

fn message(view: ReservationView) -> v1::Reservation {
    let devices = view.devices.into_iter().map(|(node_name, ordinals)| v1::ReservedDevices { node_name, ordinals });
    v1::Reservation {
        name: view.name,
        by: cut(&view.by, WORDS_MAX).to_owned(),
        reason: view.reason,
        what: cut(&view.what, WORDS_MAX).to_owned(),
        devices: devices.collect(),
        accounts: view.accounts,
        users: view.users,
        end: view.end_jobs,
        weekly: view.weekly,
        starts_unix_ms: view.starts_unix_ms,
        ends_unix_ms: view.ends_unix_ms,
        starts: view.starts,
        ends: view.ends,
        yours: false,
        hidden: false,
    }
}

/// Returns a reservation as the caller sees it. `yours` means that it is for the caller, `hidden` that the caller may
/// not see jobs of other users.
fn seen_by(view: ReservationView, yours: bool, hidden: bool) -> v1::Reservation {
    let all = v1::Reservation { yours, hidden, ..message(view) };
    if !hidden {
        return all;
    }
    let (by, reason, what) = (String::new(), String::new(), String::new());
    v1::Reservation { by, reason, what, accounts: Vec::new(), users: Vec::new(), ..all }
}
