//! Calls of Watch.

use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::{VERSION, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// Most requests in flight.
const REQUESTS_MAX: usize = 256;

/// Both directions of a call, which ends when these are dropped.
pub(crate) struct Watch {
    pub(crate) requests: mpsc::Sender<v1::WatchRequest>,
    pub(crate) replies: Streaming<v1::WatchReply>,
}

/// Begins a call.
pub(crate) async fn watch(cluster: &mut ClusterClient<Channel>, request: v1::WatchRequest) -> Result<Watch, Status> {
    let (requests, stream) = mpsc::channel(REQUESTS_MAX);
    requests.try_send(request).unwrap();
    let replies = cluster.watch(ReceiverStream::new(stream)).await?.into_inner();
    Ok(Watch { requests, replies })
}

/// Returns a request for the first rows of a table.
pub(crate) fn rows_of(table: v1::WatchTable) -> v1::WatchRequest {
    v1::WatchRequest { version: VERSION, table: table.into(), rows: 256, ..v1::WatchRequest::default() }
}
