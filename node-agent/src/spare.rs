//! A thread in reserve, for work that the system gives no thread for.

use accord_types::short_lock::ShortLock;
use accord_types::threads;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Most connections that wait for the spare thread.
const SPARE_WAITING_MAX: usize = 64;

pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// A thread that is started before it is needed. If the system has no more threads, it still introduces connections of
/// running sessions, one after the other.
pub(crate) struct Spare(Option<SyncSender<Work>>);

impl Spare {
    pub(crate) fn start() -> Self {
        let (waiting, works) = sync_channel::<Work>(SPARE_WAITING_MAX);
        let work = move || works.into_iter().for_each(|work| work());
        let started = threads::spawn("accord-spare", work);
        Self(started.is_ok().then_some(waiting))
    }

    /// Runs `work` on a thread that `start` makes, or on this one if that fails.
    pub(crate) fn or_spare(&self, work: Work, start: impl FnOnce(Work) -> std::io::Result<()>) -> std::io::Result<()> {
        let kept = Arc::new(ShortLock::new(Some(work)));
        let take = |kept: &ShortLock<Option<Work>>| kept.lock().take();
        let own = kept.clone();
        let Err(error) = start(Box::new(move || {
            if let Some(work) = take(&own) {
                work();
            }
        })) else {
            return Ok(());
        };
        let (Some(waiting), Some(work)) = (&self.0, take(&kept)) else { return Err(error) };
        waiting.try_send(work).map_err(|_| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn without_threads_the_spare_one_does_the_work() {
        let (spare, (did, done)) = (Spare::start(), channel());
        let printed = |what: u32| -> Work {
            let did = did.clone();
            Box::new(move || did.send((what, std::thread::current().name().map(str::to_owned))).unwrap())
        };
        let none = |_: Work| Err(std::io::Error::from_raw_os_error(11));
        let soon = Duration::from_secs(10);
        for what in [1, 2] {
            spare.or_spare(printed(what), none).unwrap();
            assert_eq!(done.recv_timeout(soon).unwrap(), (what, Some("accord-spare".to_owned())));
        }
        spare.or_spare(printed(3), |work| std::thread::Builder::new().spawn(work).map(drop)).unwrap();
        assert_eq!(done.recv_timeout(soon).unwrap(), (3, None));

        // The spare thread takes one work at a time, and its queue is short.
        let ((hold, held), (begins, begun)) = (channel::<()>(), channel());
        let holds = move || {
            begins.send(()).unwrap();
            held.recv().unwrap();
        };
        spare.or_spare(Box::new(holds), none).unwrap();
        begun.recv_timeout(soon).unwrap();
        let waiting = (0..=SPARE_WAITING_MAX).take_while(|_| spare.or_spare(printed(4), none).is_ok()).count();
        assert_eq!(waiting, SPARE_WAITING_MAX);
        hold.send(()).unwrap();
        for _ in 0..waiting {
            assert_eq!(done.recv_timeout(soon).unwrap().0, 4);
        }
        assert!(Spare(None).or_spare(printed(5), none).is_err());
    }
}
