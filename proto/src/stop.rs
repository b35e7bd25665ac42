//! When a service of the control plane has to end.

use accord_types::threads;
use tokio::signal::unix::{self, SignalKind};

/// Done on SIGTERM, SIGINT or, if asked, at the end of standard input.
///
/// # Errors
/// When the system refuses a handler or a thread.
pub fn signal(stdin: bool) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
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
            _ = end.recv() => {}
        }
    })
}
