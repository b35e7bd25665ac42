//! Queries about jobs. They run on a copy of the scheduler, outside of the core's lock, on a few threads. The copy
//! replays the scheduler's inputs, so a query holds the core's lock only to take these over.

use super::caller::{Caller, over_quota};
use super::driver::Driver;
use accord_cluster::Snapshot;
use accord_proto::threads::on_thread;
use accord_scheduler::follower::Follower;
use accord_scheduler::ledger::Clock;
use accord_scheduler::policy::OthersJobs;
use accord_scheduler::{JobId, Millis, Phase, Scheduler};
use accord_types::short_lock::ShortLock;
use accord_types::turn_lock::TurnLock;
use accord_types::{Count, Error, ErrorCode};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::Status;

/// Most queries that run at one time.
const QUESTIONS_MAX: usize = 2;
/// Most queries of one user that run or wait.
const QUESTIONS_OF_ONE_USER_MAX: usize = 4;
/// Age up to which a view is reused while jobs and devices are unchanged. Its times are relative to its creation.
const VIEW_AGE_MAX: Duration = Duration::from_secs(1);

/// Jobs at one moment, and cached results of queries.
pub(super) struct View {
    /// The number of this view among all views, never 0.
    pub(super) number: u64,
    stamp: u64,
    clock: Clock,
    others_jobs: OthersJobs,
    scheduler: Scheduler,
    made: Instant,
    listed: OnceLock<Listed>,
}

/// The order of jobs, and their starts.
#[derive(Default)]
pub(super) struct Listed {
    /// Running jobs by number, then waiting jobs in their order, then jobs on hold; each with its position if it waits.
    pub(super) jobs: Vec<(JobId, u32)>,
    /// Expected starts of waiting jobs and resumptions of suspended ones, as far as they are known.
    pub(super) starts: BTreeMap<JobId, Millis>,
}

impl View {
    /// Returns the scheduler. A query that changes it must clone it.
    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Converts a time of the scheduler's clock to the wall clock.
    pub(super) fn unix_ms(&self, at: Millis) -> u64 {
        let clock = self.clock;
        (clock.unix_ms + at.since(clock.now)).saturating_sub(clock.now.since(at))
    }

    /// Returns the time at which the view was made.
    pub(super) fn now(&self) -> Millis {
        self.clock.now
    }

    /// Returns which jobs of other users a user sees.
    pub(super) fn others_jobs(&self) -> OthersJobs {
        self.others_jobs
    }

    /// Returns the order of jobs and their expected starts, which the first call computes. That may take long.
    pub(super) fn listed(&self) -> &Listed {
        self.listed.get_or_init(|| {
            let scheduler = self.scheduler();
            let is_waiting = |view: &accord_scheduler::JobView| view.phase == Phase::Waiting;
            let (waiting, others): (Vec<_>, Vec<_>) = scheduler.jobs(None).partition(is_waiting);
            let held = waiting.iter().filter(|view| scheduler.is_on_hold(view.job)).map(|view| (view.job, 0));
            let ordered = scheduler.order_of_waiting();
            let places = ordered.into_iter().zip(0..);
            let jobs = others.iter().map(|view| (view.job, 0)).chain(places).chain(held).collect();
            Listed { jobs, starts: scheduler.clone().starts() }
        })
    }
}

/// Bounds the concurrent queries, and shares views among them.
pub(super) struct Questions {
    turns: Arc<Semaphore>,
    by_user: ShortLock<HashMap<String, usize>>,
    last: ShortLock<Option<Arc<View>>>,
    maker: TurnLock<ViewMaker>,
}

/// Makes views from a copy of the scheduler.
#[derive(Default)]
struct ViewMaker {
    follower: Follower,
    /// Number of views made.
    made: u64,
}

/// A user's slot for a query. Dropping it frees the slot.
struct QuestionSlot {
    questions: Arc<Questions>,
    user: String,
}

impl Questions {
    /// Copies the driver's scheduler before programs and agents are served, while it is small or not in use.
    pub(super) fn new(driver: &Driver) -> Arc<Self> {
        let mut maker = ViewMaker::default();
        maker.follow(driver, |_, _| ());
        Arc::new(Self {
            turns: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            by_user: ShortLock::default(),
            last: ShortLock::default(),
            maker: TurnLock::new(maker),
        })
    }

    /// Answers a query about the present jobs on a thread of its own, or about those of view `number` if that is the
    /// latest.
    ///
    /// # Errors
    /// Returns the errors of [`Questions::work`].
    pub(super) async fn ask<R: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        driver: &Arc<Driver>,
        number: Option<u64>,
        question: impl FnOnce(&View) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let (questions, driver, asked) = (self.clone(), driver.clone(), Instant::now());
        // No view leaves the query's thread, because freeing it takes long as well.
        self.work(caller, move || question(&questions.view(&driver, number, asked))).await
    }

    /// Answers a query that needs no view on a thread of its own.
    ///
    /// # Errors
    /// Returns `resource_exhausted` if the caller has too many queries, and `internal` if the system can't start a
    /// thread.
    pub(super) async fn work<R: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        question: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Status> {
        let place = self.enter(caller.called())?;
        self.take_turn(place, question).await
    }

    /// Brings the copy of the scheduler up to date, and publishes metrics of devices from it if wanted.
    pub(super) async fn follow(self: &Arc<Self>, driver: &Arc<Driver>, counts_devices: bool) {
        let (questions, driver) = (self.clone(), driver.clone());
        let follow = move || {
            questions.maker.take().follow(&driver, |_, scheduler| {
                if counts_devices {
                    crate::metrics::Metrics::devices(scheduler);
                }
            });
        };
        // If no thread can be started, the copy follows at the next call.
        let _ = self.take_turn((), follow).await;
    }

    /// Runs `work` on a thread once fewer than [`QUESTIONS_MAX`] queries run.
    async fn take_turn<R: Send + 'static>(
        &self,
        place: impl Send + 'static,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Status> {
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Status::unavailable("the coordinator stops"))?;
        on_thread("accord-question", (turn, place), work).await.map_err(|error| Status::internal(error.to_string()))
    }

    /// Returns the latest view if it has this number, was made after `asked`, or is young and unchanged. Otherwise
    /// makes a view.
    fn view(&self, driver: &Driver, number: Option<u64>, asked: Instant) -> Arc<View> {
        let is_good = |last: &View| {
            let is_unchanged = || driver.with_cluster(|of| of.stamp()) == last.stamp;
            number == Some(last.number) || last.made >= asked || last.made.elapsed() < VIEW_AGE_MAX && is_unchanged()
        };
        let last = || self.last.lock().clone().filter(|last| is_good(last));
        if let Some(last) = last() {
            return last;
        }
        let mut maker = self.maker.take();
        if let Some(last) = last() {
            return last;
        }
        let view = Arc::new(maker.make(driver));
        let _before = self.last.lock().replace(view.clone());
        view
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

impl ViewMaker {
    fn make(&mut self, driver: &Driver) -> View {
        self.made += 1;
        let (number, made) = (self.made, Instant::now());
        self.follow(driver, |snapshot, scheduler| {
            let (scheduler, listed) = (scheduler.clone(), OnceLock::new());
            let Snapshot { stamp, clock, others_jobs, .. } = *snapshot;
            View { number, stamp, clock, others_jobs, scheduler, made, listed }
        })
    }

    /// Brings the copy up to date and passes it to `look`.
    fn follow<R>(&mut self, driver: &Driver, look: impl FnOnce(&Snapshot, &Scheduler) -> R) -> R {
        loop {
            let mut snapshot = driver.snapshot(self.follower.has_copy());
            let missing = std::mem::take(&mut snapshot.missing);
            // A copy that has missed inputs is replaced by a new one.
            if let Some(scheduler) = self.follower.follow(missing) {
                return look(&snapshot, scheduler);
            }
        }
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
    use accord_scheduler::follower::Missing;
    use accord_trust::Role;

    fn caller(user: &str) -> Caller {
        Caller { roles: vec![Role::Tenant(user.to_owned())], address: None, refused: None }
    }

    #[test]
    fn a_user_has_few_questions_and_leaves_room_for_others() {
        let questions = Questions::new(&Driver::new(DriverSettings::default()));
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
        let driver = Arc::new(Driver::new(DriverSettings::default()));
        let questions = Questions::new(&driver);
        let view = || questions.view(&driver, None, Instant::now());
        let change = |paused| {
            let changed = accord_scheduler::Input::Pause { paused, by: "admin root".to_owned() };
            driver.input(accord_cluster::Input::Schedule(changed));
        };
        let (first, again) = (view(), view());
        assert!(Arc::ptr_eq(&first, &again));
        change(true);
        let second = view();
        assert!(first.number != second.number && second.scheduler().is_paused() && !first.scheduler().is_paused());
        assert!(Arc::ptr_eq(&second, &questions.view(&driver, Some(second.number), Instant::now())));
        assert!(questions.view(&driver, Some(first.number), Instant::now()).number != first.number);
        change(false);
        assert!(!view().scheduler().is_paused());
        let runtime = accord_proto::runtime::one_threaded().unwrap();
        let jobs = runtime.block_on(questions.ask(&caller("eva"), &driver, None, |view| view.listed().jobs.len()));
        assert_eq!(jobs.unwrap(), 0);
    }

    #[test]
    fn the_scheduler_is_copied_before_the_first_question_and_follows_without_questions() {
        let driver = Arc::new(Driver::new(DriverSettings::default()));
        let pause = |paused| {
            let changed = accord_scheduler::Input::Pause { paused, by: "admin root".to_owned() };
            driver.input(accord_cluster::Input::Schedule(changed));
        };
        let lacking = || driver.with_cluster(accord_cluster::Cluster::lacking);
        pause(true);
        assert_eq!(lacking(), 0, "nothing is recorded for a copy that does not exist");
        let questions = Questions::new(&driver);
        pause(false);
        pause(true);
        assert_eq!(lacking(), 2);
        accord_proto::runtime::one_threaded().unwrap().block_on(questions.follow(&driver, false));
        assert_eq!(lacking(), 0);
        pause(false);
        assert!(matches!(driver.snapshot(true).missing, Missing::Inputs(inputs) if inputs.len() == 1));
    }
}
