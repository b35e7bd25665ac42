//! Signals that end a service of the control plane, and signals that must not.

use accord_types::threads;
use tokio::signal::unix::{self, SignalKind};

/// Returns a future that completes on SIGTERM, SIGINT, SIGHUP (unless ignored, as under `nohup`) or, if `stdin`, at the
/// end of standard input. Also handles SIGXFSZ, so that a log at its size limit (`ulimit -f`) is an error for the
/// writer only. Child processes are not affected.
///
/// # Errors
/// Returns an error if a handler can't be installed or a thread can't be started.
pub fn signal(stdin: bool) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut hangup = if ignores_hangup() { None } else { Some(unix::signal(SignalKind::hangup())?) };
    // The handler alone keeps the signal from ending the process.
    drop(unix::signal(SignalKind::from_raw(libc::SIGXFSZ))?);
    let (ended, mut end) = tokio::sync::mpsc::channel::<()>(1);
    let open = if stdin {
        threads::spawn("accord-stdin", move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            drop(ended);
        })?;
        None
    } else {
        Some(ended)
    };
    Ok(async move {
        let _open = open;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {}
            _ = end.recv() => {}
        }
    })
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
    async fn a_file_that_may_not_grow_is_no_end() {
        let stop = signal(false).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::XFSZ).unwrap();
        let soon = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, stop).await.is_err());
    }
}
