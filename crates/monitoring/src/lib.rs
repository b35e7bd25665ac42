//! Exposes a service's state over HTTP: `/metrics` for Prometheus, `/healthz` (liveness) and `/readyz` (readiness).
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

/// Returns `Ok` if the service can do its work, else the reason in one line.
type Ready = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The metrics and the health of one service.
pub struct Monitor {
    metrics: PrometheusHandle,
    ready: Ready,
    /// Updates metrics that are computed only when a page is requested.
    refresh: Box<dyn Fn() + Send + Sync>,
}

impl Monitor {
    /// Installs the recorder of this process's metrics, which `table` lists.
    ///
    /// # Errors
    /// Returns an error if the process has a recorder already.
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

    /// Calls `refresh` before each page of metrics.
    #[must_use]
    pub fn refreshed_by(self, refresh: impl Fn() + Send + Sync + 'static) -> Self {
        Self { refresh: Box::new(refresh), ..self }
    }

    /// Serves the pages at `address`, `host:port`, as a task of the current runtime. Returns the bound address.
    ///
    /// # Errors
    /// Returns an error if the system refuses the address.
    pub async fn listen(self, address: &str) -> Result<String, String> {
        let refused = |error: std::io::Error| {
            format!("cannot show metrics at {address}: {error}; choose another --metrics-listen")
        };
        // Tokio's `bind` panics if it can't start a thread to resolve the name. Blocking is fine here, before the
        // service starts.
        let listener = std::net::TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let listener = TcpListener::from_std(listener).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        tokio::spawn(serve(listener, Arc::new(self)));
        Ok(address.to_string())
    }

    /// Returns all metrics in Prometheus' text format.
    fn render(&self) -> String {
        (self.refresh)();
        self.metrics.run_upkeep();
        self.metrics.render()
    }
}
