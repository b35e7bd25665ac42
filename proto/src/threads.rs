//! Calls that wait for the system's database of hosts or users, or for MUNGE: each on a thread of its own, as a runtime has one only.

use accord_types::{Error, ErrorCode, Result};
use tokio::sync::oneshot;

/// Does `work` on a thread called `name`. Whoever gives up waiting for it leaves the thread behind: it has its `place`, which bounds how many
/// there are, until the work is done.
///
/// # Errors
/// `acc_error_system` where the system has no more threads, or the work has panicked.
pub async fn on_thread<R: Send + 'static>(
    name: &str,
    place: impl Send + 'static,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R> {
    let (done, outcome) = oneshot::channel();
    let work = move || {
        let outcome = work();
        drop(place);
        // Nobody waits for it any more if this fails.
        let _ = done.send(outcome);
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Error::new(ErrorCode::System, format!("cannot start a thread ({name}): {error}"))
            .remedy("allow more threads and memory (ulimit -u, ulimit -v)")
    })?;
    outcome.await.map_err(|_| Error::new(ErrorCode::System, format!("a thread ({name}) has panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    #[test]
    fn a_place_is_taken_until_the_work_is_done_whoever_waits() {
        let runtime = crate::runtime::one_threaded().unwrap();
        let places = Arc::new(Semaphore::new(1));
        runtime.block_on(async {
            let name = || std::thread::current().name().map(str::to_owned);
            assert_eq!(on_thread("accord-test", (), name).await.unwrap().as_deref(), Some("accord-test"));
            let (go, wait) = channel::<()>();
            let place = places.clone().acquire_owned().await.unwrap();
            let given_up = on_thread("accord-test", place, move || wait.recv().unwrap());
            tokio::time::timeout(Duration::from_millis(10), given_up).await.unwrap_err();
            assert_eq!(places.available_permits(), 0);
            go.send(()).unwrap();
            let freed = tokio::time::timeout(Duration::from_secs(10), places.acquire()).await;
            assert!(freed.is_ok_and(|place| place.is_ok()));
            let panics = on_thread("accord-test", (), || assert!(places_are_none(), "on purpose"));
            assert!(panics.await.unwrap_err().cause().contains("has panicked"));
        });
    }

    fn places_are_none() -> bool {
        false
    }
}
