//! Signals that end a service of the control plane, and signals that must not.

use accord_types::threads;
use tokio::signal::unix::{self, Signal, SignalKind};
use tokio::sync::mpsc;

/// The events that end a service of the control plane: SIGTERM, SIGINT, SIGHUP (unless that is ignored, as under `nohup`) and, if asked, the end of
/// standard input.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    /// Closed at the end of standard input.
    input: mpsc::Receiver<()>,
    /// Keeps `input` open if standard input does not count.
    _open: Option<mpsc::Sender<()>>,
}

/// Returns the events that end this service, with `stdin` the end of standard input among them. From now on a log that may not grow (`ulimit -f`) is
/// an error for its writer, and no end of the service; what it starts is not concerned.
///
/// # Errors
/// Returns an error if the system refuses a handler or a thread.
pub fn signals(stdin: bool) -> std::io::Result<StopSignals> {
    let terminate = unix::signal(SignalKind::terminate())?;
    let interrupt = unix::signal(SignalKind::interrupt())?;
    let hangup = if ignores_hangup() { None } else { Some(unix::signal(SignalKind::hangup())?) };
    // That it has a handler is all.
    drop(unix::signal(SignalKind::from_raw(libc::SIGXFSZ))?);
    let (ended, input) = mpsc::channel::<()>(1);
    let open = if stdin {
        threads::spawn("accord-stdin", move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            drop(ended);
        })?;
        None
    } else {
        Some(ended)
    };
    Ok(StopSignals { terminate, interrupt, hangup, input, _open: open })
}

impl StopSignals {
    /// Returns at the next event. The end of standard input is one at each call. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) {
        let Self { terminate, interrupt, hangup, input, _open: _ } = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {}
            _ = input.recv() => {}
        }
    }
}

/// Returns a future that is done at the first event of [`signals`].
///
/// # Errors
/// Returns the errors of [`signals`].
pub fn signal(stdin: bool) -> std::io::Result<impl Future<Output = ()>> {
    let mut signals = signals(stdin)?;
    Ok(async move { signals.next().await })
}

/// Whether this process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (libc::SIGHUP - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hangup_is_an_end() {
        let stop = signal(false).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        stop.await;
    }

    #[tokio::test]
    async fn each_signal_is_an_event() {
        let mut stop = signals(false).unwrap();
        for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
            rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
            stop.next().await;
        }
        let soon = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, stop.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_may_not_grow_is_no_end() {
        let stop = signal(false).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::XFSZ).unwrap();
        let soon = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, stop).await.is_err());
    }
}
