//! Questions about jobs: on a copy of the scheduler, outside of the core's lock, on threads of their own, few at a time.

use super::caller::{Caller, over_quota};
use super::driver::Driver;
use crate::cluster::Snapshot;
use accord_proto::threads::on_thread;
use accord_scheduler::ledger::Clock;
use accord_scheduler::policy::OthersJobs;
use accord_scheduler::{JobId, Millis, Phase, Scheduler};
use accord_types::short_lock::ShortLock;
use accord_types::{Count, Error, ErrorCode};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::Status;

/// Questions that are worked on at one time.
const QUESTIONS_MAX: usize = 2;
/// Questions of one user that are worked on or wait.
const QUESTIONS_OF_ONE_USER_MAX: usize = 4;
/// A copy is made at most so often that making copies takes this part of the core's time.
const PART_FOR_COPIES: u32 = 20;
/// A copy in which nothing has changed is as good as a new one for so long: times in it count from when it was made.
const COPY_AGE_MAX: Duration = Duration::from_secs(1);

/// Jobs at one moment, with what questions have found out about it.
pub(super) struct View {
    /// Differs from view to view; never 0.
    pub(super) number: u64,
    stamp: u64,
    clock: Clock,
    others_jobs: OthersJobs,
    /// The scheduler is behind a lock as it counts its steps.
    scheduler: ShortLock<Scheduler>,
    made: Instant,
    cost: Duration,
    listed: OnceLock<Listed>,
}

/// The order of jobs, and their starts.
#[derive(Default)]
pub(super) struct Listed {
    /// Running jobs by number, then waiting ones in their order, then those on hold; of waiting ones the position.
    pub(super) jobs: Vec<(JobId, u32)>,
    /// Starts of waiting jobs, as far as they are known.
    pub(super) starts: BTreeMap<JobId, Millis>,
}

impl View {
    /// A copy of the scheduler to run on.
    pub(super) fn scheduler(&self) -> Scheduler {
        self.scheduler.lock().clone()
    }

    /// A time of the scheduler's clock by the wall clock.
    pub(super) fn unix_ms(&self, at: Millis) -> u64 {
        let clock = self.clock;
        (clock.unix_ms + at.since(clock.now)).saturating_sub(clock.now.since(at))
    }

    /// Returns the time when it was made.
    pub(super) fn now(&self) -> Millis {
        self.clock.now
    }

    /// Returns which of others' jobs users see.
    pub(super) fn others_jobs(&self) -> OthersJobs {
        self.others_jobs
    }

    /// Shows the metrics of devices.
    pub(super) fn count_devices(&self) {
        crate::metrics::Metrics::devices(&self.scheduler.lock());
    }

    /// The order of jobs and their starts. Takes long at the first call.
    pub(super) fn listed(&self) -> &Listed {
        self.listed.get_or_init(|| {
            let scheduler = self.scheduler();
            let is_waiting = |view: &accord_scheduler::JobView| view.phase == Phase::Waiting;
            let (waiting, others): (Vec<_>, Vec<_>) = scheduler.jobs(None).partition(is_waiting);
            let held = waiting.iter().filter(|view| scheduler.is_on_hold(view.job)).map(|view| (view.job, 0));
            let ordered = scheduler.order_of_waiting();
            let places = ordered.into_iter().zip(0..);
            let jobs = others.iter().map(|view| (view.job, 0)).chain(places).chain(held).collect();
            Listed { jobs, starts: scheduler.starts() }
        })
    }
}

/// The bounds of concurrent questions, and the view that answers share.
pub(super) struct Questions {
    turns: Arc<Semaphore>,
    by_user: ShortLock<HashMap<String, usize>>,
    last: ShortLock<Option<Arc<View>>>,
    made: ShortLock<u64>,
}

/// A user's place among the questions. Dropping it gives it back.
struct QuestionSlot {
    questions: Arc<Questions>,
    user: String,
}

impl Questions {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            turns: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            by_user: ShortLock::default(),
            last: ShortLock::default(),
            made: ShortLock::default(),
        })
    }

    /// Answers a question about a view on a thread of its own.
    ///
    /// # Errors
    /// Returns `resource_exhausted` if the caller has as many questions as it may, and `internal` where the system has no more threads.
    pub(super) async fn ask<R: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        view: &Arc<View>,
        question: impl FnOnce(&View) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let place = self.enter(caller.called())?;
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Status::unavailable("the coordinator stops"))?;
        let view = view.clone();
        let answer = on_thread("accord-question", (turn, place), move || question(&view)).await;
        answer.map_err(|error| Status::internal(error.to_string()))
    }

    /// Jobs as they are now.
    pub(super) async fn view(&self, driver: &Driver) -> Arc<View> {
        let asked = Instant::now();
        loop {
            let last = self.last.lock().clone();
            if let Some(last) = last {
                let unchanged =
                    last.made.elapsed() < COPY_AGE_MAX && driver.with_cluster(|of| of.stamp()) == last.stamp;
                if last.made >= asked || unchanged {
                    return last;
                }
                let pause = (last.cost * PART_FOR_COPIES).saturating_sub(last.made.elapsed());
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                    continue;
                }
            }
            let view = Arc::new(self.copy(driver));
            *self.last.lock() = Some(view.clone());
            return view;
        }
    }

    /// The view with a number, if it is the last one.
    pub(super) fn view_numbered(&self, number: u64) -> Option<Arc<View>> {
        self.last.lock().clone().filter(|view| view.number == number)
    }

    fn copy(&self, driver: &Driver) -> View {
        let now = driver.now();
        let (begun, snapshot) = driver.with_cluster(|cluster| (Instant::now(), cluster.snapshot(now)));
        let cost = begun.elapsed();
        let number = {
            let mut made = self.made.lock();
            *made += 1;
            *made
        };
        let Snapshot { stamp, clock, scheduler, others_jobs } = snapshot;
        let scheduler = ShortLock::new(scheduler);
        View { number, stamp, clock, others_jobs, scheduler, made: begun, cost, listed: OnceLock::new() }
    }

    fn enter(self: &Arc<Self>, user: String) -> Result<QuestionSlot, Status> {
        let mut by_user = self.by_user.lock();
        let count = by_user.entry(user.clone()).or_default();
        if *count >= QUESTIONS_OF_ONE_USER_MAX {
            let what = Count(*count, "question");
            let cause = format!("{user} has {what} about jobs under way, the quota of one user");
            let error = Error::new(ErrorCode::DeviceUnavailable, cause).remedy("ask again when one is answered");
            return Err(over_quota(&error));
        }
        *count += 1;
        Ok(QuestionSlot { questions: self.clone(), user })
    }
}

impl Drop for QuestionSlot {
    fn drop(&mut self) {
        let mut by_user = self.questions.by_user.lock();
        let Some(count) = by_user.get_mut(&self.user) else { return };
        *count -= 1;
        if *count == 0 {
            by_user.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::DriverSettings;
    use accord_trust::Role;

    fn caller(user: &str) -> Caller {
        Caller { roles: vec![Role::Tenant(user.to_owned())], address: None, refused: None }
    }

    #[test]
    fn a_user_has_few_questions_and_leaves_room_for_others() {
        let questions = Questions::new();
        let places: Vec<QuestionSlot> = std::iter::from_fn(|| questions.enter("tenant eva".to_owned()).ok()).collect();
        assert_eq!(places.len(), QUESTIONS_OF_ONE_USER_MAX);
        let error = questions.enter("tenant eva".to_owned()).err().unwrap();
        assert!(error.message().contains("tenant eva has 4 questions about jobs under way"), "{error}");
        assert!(questions.enter("tenant tom".to_owned()).is_ok());
        drop(places);
        assert!(questions.by_user.lock().is_empty());
    }

    #[test]
    fn a_view_is_made_anew_only_if_something_has_changed() {
        let runtime = accord_proto::runtime::one_threaded().unwrap();
        runtime.block_on(async {
            let (questions, driver) = (Questions::new(), Driver::new(DriverSettings::default()));
            let first = questions.view(&driver).await;
            let changed = accord_scheduler::Input::Pause { paused: true, by: "admin root".to_owned() };
            driver.input(crate::cluster::Input::Schedule(changed));
            let second = questions.view(&driver).await;
            assert!(first.number != second.number && second.scheduler().is_paused() && !first.scheduler().is_paused());
            assert!(questions.view_numbered(first.number).is_none());
            let jobs = questions.ask(&caller("eva"), &second, |view| view.listed().jobs.len()).await;
            assert_eq!(jobs.unwrap(), 0);
        });
    }
}
