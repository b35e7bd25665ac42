//! A stream whose writes may not take long: a peer that does not read is dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Fails a write that makes no progress for a while.
pub(super) struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stuck: None }
    }

    /// Returns a write's outcome, or an error once writes have waited for the limit.
    fn within<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stuck = None;
            return outcome;
        }
        let limit = self.limit;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stuck.as_mut().poll(cx));
        stuck.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, from);
        self.within(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn a_write_that_nothing_reads_fails() {
        let (ours, _theirs) = duplex(4);
        let mut stream = WriteDeadline::new(ours, Duration::from_millis(20));
        stream.write_all(&[0; 4]).await.unwrap();
        assert_eq!(stream.write_all(&[0; 4]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_is_waited_for() {
        let (ours, mut theirs) = duplex(1);
        let mut stream = WriteDeadline::new(ours, Duration::from_secs(60));
        let reads = tokio::spawn(async move {
            for _ in 0..8 {
                sleep(Duration::from_millis(5)).await;
                theirs.read_exact(&mut [0]).await.unwrap();
            }
        });
        stream.write_all(&[0; 8]).await.unwrap();
        reads.await.unwrap();
    }
}
