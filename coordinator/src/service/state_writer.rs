//! The thread that makes decisions durable in the store, and has them carried out then.

use super::driver::{Driver, DriverSettings, unix_ms};
use super::journal::{DECISIONS_MAX, Journal, Phase};
use crate::store::{Changes, Opened, Store};
use accord_cluster::{Cluster, Input};
use accord_types::threads;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of retries after a failed write.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The thread that writes the state.
pub struct StateWriter {
    driver: Arc<Driver>,
    thread: JoinHandle<()>,
    epoch: u64,
}

impl StateWriter {
    /// Starts the driver of the cluster that is in a store, and the thread that writes to the store.
    ///
    /// # Errors
    /// Returns why the state can't be used.
    pub fn begin<S: Store + 'static>(
        settings: DriverSettings,
        opened: Opened<S>,
    ) -> Result<(Arc<Driver>, Self), String> {
        let Opened { store, records, restart } = opened;
        let cluster = Cluster::restore(settings.limits, &records, restart);
        let cluster = cluster.map_err(|why| store.damaged(why).to_string())?;
        let (journal, woken) = Journal::new();
        let driver = Arc::new(Driver::of(settings, cluster, restart.now, Some(journal)));
        let own = driver.clone();
        let thread = threads::spawn("accord-state", move || write_all(&own, store, &woken));
        let thread = thread.map_err(|error| format!("cannot start: {error}"))?;
        driver.input(Input::Tick);
        Ok((driver.clone(), Self { driver, thread, epoch: restart.epoch }))
    }

    /// Returns the epoch of this coordinator.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns why nothing is written any more, if another coordinator leads.
    pub fn superseded(&self) -> Option<String> {
        self.driver.with_journal(|journal| journal.failure.clone().filter(|_| journal.phase == Phase::Superseded))
    }

    /// Writes what is not written yet, and closes the store.
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

fn write_all(driver: &Driver, mut store: impl Store, woken: &Receiver<()>) {
    let mut changes = Changes::new();
    loop {
        let (has_more, closing) =
            driver.with_journal(|journal| (journal.gather(&mut changes), journal.phase == Phase::Closing));
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
                tracing::warn!("the state is written again");
            }
            driver.with_journal(Journal::written);
            driver.carry_out_durable();
            continue;
        };
        let text = error.to_string();
        let (before, is_full) =
            driver.with_journal(|journal| (journal.failure.replace(text.clone()), journal.is_full()));
        driver.state_changed();
        if error.is_superseded() {
            driver.with_journal(|journal| journal.phase = Phase::Superseded);
            driver.stop();
            return;
        }
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
