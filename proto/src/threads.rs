//! Blocking calls to the host or user database, or to MUNGE, each on a thread of its own, because the runtime has only
//! one.

use accord_types::{Error, ErrorCode, Result, scarce, threads};
use tokio::sync::oneshot;

/// Runs `work` on a thread called `name`. If the caller stops waiting, the thread keeps `place` until `work` is done;
/// `place` bounds the number of such threads.
///
/// # Errors
/// Returns `acc_error_system` if the system can't start a thread or `work` panics.
pub async fn on_thread<R: Send + 'static>(
    name: &str,
    place: impl Send + 'static,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R> {
    let (done, outcome) = oneshot::channel();
    let work = move || {
        let outcome = threads::caught(work);
        drop(place);
        // Fails if the caller has stopped waiting.
        let _ = done.send(outcome);
    };
    threads::spawn(name, work).map_err(|error| {
        Error::new(ErrorCode::System, format!("cannot start a thread ({name}): {error}")).remedy(scarce::THREADS)
    })?;
    let broken = |why: String| Error::new(ErrorCode::System, why).remedy(threads::REMEDY);
    outcome
        .await
        .map_err(|_| broken(format!("the thread {name} has no answer")))?
        .map_err(|panic| broken(panic.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    #[test]
    fn a_place_is_taken_until_the_work_is_done() {
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

    /// A runtime catches panics of its tasks, and a waiter for such a task would wait for ever.
    #[test]
    fn a_panic_in_a_task_ends_a_process_of_ours() {
        const IS_SERVICE: &str = "ACCORD_TEST_SERVICE";
        if std::env::var_os(IS_SERVICE).is_some() {
            threads::abort_on_panic("accord-example");
            crate::runtime::one_threaded().unwrap().block_on(async {
                tokio::spawn(async { panic!("on purpose") });
                std::future::pending::<()>().await;
            });
        }
        let mut service = Command::new(std::env::current_exe().unwrap());
        let test = "threads::tests::a_panic_in_a_task_ends_a_process_of_ours";
        let ended = service.args([test, "--exact", "--nocapture"]).env(IS_SERVICE, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(6), "{printed}");
        assert!(printed.contains("accord-example: the thread ") && printed.contains(": on purpose; "), "{printed}");
    }

    fn places_are_none() -> bool {
        false
    }
}
