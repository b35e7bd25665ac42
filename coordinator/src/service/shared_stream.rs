//! A program's connection for concurrent reading and writing, whose socket can be tuned meanwhile.

use accord_fabric::transport::{find_dead_host, probe_seldom};
use accord_proto::Stream;
use accord_types::short_lock::ShortLock;
use std::io::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A handle to a connection. At most one clone reads at a time, and at most one writes.
#[derive(Clone)]
pub(super) struct SharedStream {
    stream: Arc<ShortLock<Stream>>,
    /// Silence of the program's machine after which the connection ends, while no request waits.
    lost_after: Duration,
}

impl SharedStream {
    pub(super) fn new(stream: Stream, lost_after: Duration) -> Self {
        Self { stream: Arc::new(ShortLock::new(stream)), lost_after }
    }

    /// Probes the peer rarely while a request waits on the connection, and often otherwise.
    pub(super) fn waits(&self, begins: bool) {
        if let Stream::Tls(stream) = &*self.stream.lock() {
            let tcp = stream.get_ref().0;
            // If the socket can't be tuned, the next read or write fails.
            let _ = if begins { probe_seldom(tcp) } else { find_dead_host(tcp, self.lost_after) };
        }
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_read(cx, to)
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut *self.stream.lock()).poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_shutdown(cx)
    }
}
