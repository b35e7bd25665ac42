//! The thread that writes decisions to the state file, and carries them out once they are durable.

use super::driver::{Driver, DriverSettings, unix_ms};
use super::journal::{DECISIONS_MAX, Journal};
use crate::store::{Changes, Store};
use accord_cluster::{Cluster, Input};
use accord_types::threads;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of retries after a failed write.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The thread that writes the state file.
pub struct StateWriter {
    driver: Arc<Driver>,
    thread: JoinHandle<()>,
}

impl StateWriter {
    /// Creates a driver of the cluster in a state file, and starts the file's writer.
    ///
    /// # Errors
    /// Returns why the file can't be used.
    pub fn open(settings: DriverSettings, path: &Path) -> Result<(Arc<Driver>, Self), String> {
        let opened = Store::open(path, unix_ms()).map_err(|error| error.to_string())?;
        let cluster = Cluster::restore(settings.limits, &opened.records, opened.restart)
            .map_err(|why| opened.store.damaged(why).to_string())?;
        let (journal, woken) = Journal::new();
        let driver = Arc::new(Driver::of(settings, cluster, opened.restart.now, Some(journal)));
        let (own, store) = (driver.clone(), opened.store);
        let thread = threads::spawn("accord-state", move || write_all(&own, store, &woken));
        let thread = thread.map_err(|error| format!("cannot start: {error}"))?;
        driver.input(Input::Tick);
        Ok((driver.clone(), Self { driver, thread }))
    }

    /// Writes all remaining decisions and closes the file.
    ///
    /// # Errors
    /// Returns why a decision could not be written. Its effects were not carried out.
    pub fn close(self) -> Result<(), String> {
        self.driver.with_journal(Journal::close);
        // A panic of the thread ends this process.
        let _ = self.thread.join();
        self.driver.state_failure().map_or(Ok(()), Err)
    }
}

fn write_all(driver: &Driver, mut store: Store, woken: &Receiver<()>) {
    let mut changes = Changes::new();
    loop {
        let (has_more, closing) = driver.with_journal(|journal| (journal.gather(&mut changes), journal.closing));
        if !has_more {
            if closing || woken.recv().is_err() {
                return;
            }
            continue;
        }
        let written = if changes.is_empty() { Ok(()) } else { store.commit(&changes, driver.now(), unix_ms()) };
        let Err(error) = written else {
            changes.clear();
            if driver.with_journal(|journal| journal.failure.is_some()) {
                tracing::warn!("the state file is written again");
            }
            driver.with_journal(Journal::written);
            driver.carry_out_durable();
            continue;
        };
        let text = error.to_string();
        let (before, is_full) =
            driver.with_journal(|journal| (journal.failure.replace(text.clone()), journal.is_full()));
        driver.state_changed();
        if before.as_ref() != Some(&text) {
            tracing::error!("{text}: running programs go on, and no job starts or ends until then");
        }
        if is_full {
            tracing::error!("{text}: more than {DECISIONS_MAX} decisions wait for that, and the coordinator ends");
            driver.stop();
        }
        if closing || is_full {
            return;
        }
        std::thread::sleep(TRY_AGAIN);
    }
}
