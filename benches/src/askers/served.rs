//! A full cluster whose coordinator serves users by TLS, in this process.

use super::cluster::Cluster;
use crate::report::text;
use accord_coordinator::service::{Attestation, Listeners, PROGRAM_LOST_AFTER, serve};
use accord_trust::issue::Authority;
use accord_trust::name::Role;
use accord_trust::{Identity, Trust};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Served {
    pub(crate) cluster: Cluster,
    /// `host:port` of the coordinator.
    pub(crate) address: String,
    authority: Authority,
    stop: oneshot::Sender<()>,
    coordinator: JoinHandle<Result<(), String>>,
}

impl Served {
    /// Starts the coordinator, and fills its devices and its queue.
    pub(crate) fn begin(devices: u32, waiting: usize) -> Result<Self, String> {
        let authority = Authority::new("bench", LIFETIME).map_err(text)?;
        let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(text)?;
        let address = listener.local_addr().map_err(text)?.to_string();
        let trust = Arc::new(Trust::fixed(authority.identity(Role::Coordinator, LIFETIME).map_err(text)?));
        let listeners =
            Listeners { tcp: Some((listener, trust)), local: None, page: None, program_lost_after: PROGRAM_LOST_AFTER };
        let mut cluster = Cluster::new(&runtime, devices, waiting)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let driver = cluster.driver();
        let coordinator = std::thread::spawn(move || {
            let stop = async {
                let _ = stopped.await;
            };
            runtime.block_on(serve(&listeners, Attestation::default(), driver, stop)).map_err(text)
        });
        cluster.fill()?;
        println!("{}", cluster.state());
        Ok(Self { cluster, address, authority, stop, coordinator })
    }

    /// Issues a certificate for a user.
    pub(crate) fn tenant(&self, name: String) -> Result<Identity, String> {
        self.authority.identity(Role::Tenant(name), LIFETIME).map_err(text)
    }

    /// Stops the coordinator.
    pub(crate) fn end(self) -> Result<(), String> {
        drop(self.stop);
        self.coordinator.join().map_err(|_| "the coordinator has panicked")??;
        println!("{}", self.cluster.state());
        Ok(())
    }
}
