//! Runs a coordinator on a thread inside another program.

use crate::service::{Attestation, Driver, DriverSettings, Listeners, PROGRAM_LOST_AFTER, serve};
use accord_cluster::Limits;
use accord_trust::Identity;
use accord_trust::Trust;
use accord_types::threads;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A running coordinator. Dropping it stops the coordinator as abruptly as a crash: agents and programs see their
/// connections close.
pub struct Background {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a coordinator that listens on `listen`; port 0 chooses a free one.
    ///
    /// # Errors
    /// Returns an error if the address is not available or the system can't start a thread.
    pub fn start(listen: SocketAddr, identity: Identity, limits: Limits) -> std::io::Result<Self> {
        Self::start_with(listen, identity, limits, Attestation::default())
    }

    /// Starts a coordinator that also accepts attested users without a certificate.
    ///
    /// # Errors
    /// Returns the errors of [`Background::start`].
    pub fn start_with(
        listen: SocketAddr,
        identity: Identity,
        limits: Limits,
        attestation: Attestation,
    ) -> std::io::Result<Self> {
        let runtime = accord_proto::runtime::one_threaded()?;
        let listener = runtime.block_on(TcpListener::bind(listen))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let listeners = Listeners {
            tcp: Some((listener, Arc::new(Trust::fixed(identity)))),
            local: None,
            page: None,
            program_lost_after: PROGRAM_LOST_AFTER,
        };
        let work = move || {
            let driver = Arc::new(Driver::new(DriverSettings { limits, ..DriverSettings::default() }));
            let stop = async {
                let _ = stopped.await;
            };
            if let Err(error) = runtime.block_on(serve(&listeners, attestation, driver, stop)) {
                tracing::warn!("the coordinator has ended: {error}");
            }
        };
        let thread = threads::spawn("accord-coordinator", work)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Blocks until an administrator or a failure has stopped the coordinator.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the thread ends this process.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread ends this process.
            let _ = thread.join();
        }
    }
}
