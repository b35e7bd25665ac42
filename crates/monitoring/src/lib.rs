//! What a service tells those who watch it, over HTTP: `/metrics` for Prometheus, `/healthz` (it answers) and
//! `/readyz` (it can do its work).
//!
//! Services count through the `metrics` facade. Without a [`Monitor`] that costs nothing.
#![forbid(unsafe_code)]

mod http;
mod table;

pub use http::serve;
pub use table::{Kind, Metric};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Whether a service can do its work; if not, why, in one line.
type Ready = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The metrics and the health of one service.
pub struct Monitor {
    metrics: PrometheusHandle,
    ready: Ready,
    /// Sets what is only known when asked for.
    refresh: Box<dyn Fn() + Send + Sync>,
}

impl Monitor {
    /// Starts to keep this process's metrics. `table` lists them.
    ///
    /// # Errors
    /// Returns an error if the process's metrics are kept already.
    pub fn install(
        table: &[Metric],
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let metrics = PrometheusBuilder::new().install_recorder().map_err(|error| format!("no metrics: {error}"))?;
        for metric in table {
            metric.describe();
        }
        Ok(Self { metrics, ready: Box::new(ready), refresh: Box::new(|| ()) })
    }

    /// Has `refresh` set metrics before each page of them.
    #[must_use]
    pub fn refreshed_by(self, refresh: impl Fn() + Send + Sync + 'static) -> Self {
        Self { refresh: Box::new(refresh), ..self }
    }

    /// Shows it at `address`, `host:port`, as a task of the runtime that this is called in. Returns where that is.
    ///
    /// # Errors
    /// Returns an error if the system refuses the address.
    pub async fn listen(self, address: &str) -> Result<String, String> {
        let refused = |error: std::io::Error| {
            format!("cannot show metrics at {address}: {error}; choose another --metrics-listen")
        };
        // Tokio's own would panic where a name takes a thread that it can't have. The service is about to start: it may wait.
        let listener = std::net::TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let listener = TcpListener::from_std(listener).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        tokio::spawn(serve(listener, Arc::new(self)));
        Ok(address.to_string())
    }

    /// All metrics, in Prometheus' text format.
    fn render(&self) -> String {
        (self.refresh)();
        self.metrics.run_upkeep();
        self.metrics.render()
    }
}
