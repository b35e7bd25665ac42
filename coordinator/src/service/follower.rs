//! A coordinator that does not lead: it refuses all calls, and names the one that does.

use super::listener::{Listeners, accept};
use super::programs::Programs;
use super::referral::Referral;
use super::tenants::Tenants;
use super::witness::{Attestation, Witnesses};
use super::{CALLS_MAX, GRPC_WAITING_MAX, HTTP2_PROBE, PageListener, page, unauthenticated};
use crate::leadership::Outcome;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;
use tonic::{Request, Status};

/// Refuses calls, programs and browsers until `ends` is done.
///
/// # Errors
/// Returns an error if a port fails.
pub async fn follow<T>(
    listeners: &Listeners,
    attestation: Attestation,
    outcome: watch::Receiver<Outcome>,
    ends: impl Future<Output = T>,
) -> Result<Option<T>, tonic::transport::Error> {
    let referral = Referral::new(outcome);
    let (grpc, waiting) = mpsc::channel(GRPC_WAITING_MAX);
    let to = referral.clone();
    let refuses = InterceptorLayer::new(move |_: Request<()>| Err::<Request<()>, Status>(to.status()));
    let server = Server::builder()
        .max_concurrent_streams(Some(CALLS_MAX))
        .http2_keepalive_interval(Some(HTTP2_PROBE))
        .layer(refuses)
        .add_routes(Routes::default())
        .serve_with_incoming(ReceiverStream::new(waiting));
    let displayed = refer(listeners.page.as_ref(), referral.clone());
    let programs = Programs::Referred { to: referral, lost_after: listeners.program_lost_after };
    let tenants = Tenants::new(unauthenticated::descriptors());
    tokio::select! {
        result = server => result.map(|()| None),
        () = accept(listeners, Witnesses::new(attestation), tenants, programs, grpc) => Ok(None),
        () = displayed => Ok(None),
        ended = ends => Ok(Some(ended)),
    }
}

/// Refuses browsers, if there is a port for them. Never returns.
async fn refer(listener: Option<&PageListener>, to: Referral) {
    match listener {
        Some(listener) => page::refer(listener, to).await,
        None => std::future::pending().await,
    }
}
