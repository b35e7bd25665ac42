//! The jobs service: the queue, changes to jobs, explanations, forecasts, history and usage.

use super::caller::Caller;
use super::driver::{Driver, unix_ms};
use super::groups::Groups;
use super::job_errors::no_job;
use super::job_words::{add_use, add_wait, devices, ended, explain, job, reservation_of, state, why_suspended};
use super::page_space::PageSpace;
use super::questions::{Questions, View};
use super::suspensions;
use super::viewer::Viewer;
use accord_cluster::Input;
use accord_proto::bounds::EXPLANATION_LINES_MAX;
use accord_proto::convert::{Malformed, check_version};
use accord_proto::v1;
use accord_scheduler::ledger::UsageBy;
use accord_scheduler::request::words::TIME_MAX_MS;
use accord_scheduler::{Forecast, Input as Scheduled, JobId, JobView, Phase, Scheduler, TextError};
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::texts::{NAME_MAX, WORDS_MAX, cut};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The service for jobs.
pub(super) struct Jobs {
    driver: Arc<Driver>,
    questions: Arc<Questions>,
    groups: Arc<Groups>,
}

impl Jobs {
    pub(super) fn new(driver: Arc<Driver>, questions: Arc<Questions>, groups: Arc<Groups>) -> Self {
        Self { driver, questions, groups }
    }

    /// Returns a job if the caller may change it.
    fn changeable(&self, viewer: &Viewer, id: u64, what: &str) -> Result<JobView, Status> {
        let job = self.driver.with_cluster(|cluster| cluster.scheduler().job(JobId(id)));
        let job = job.ok_or_else(|| no_job(id))?;
        if viewer.is_admin || viewer.owns(&job) {
            return Ok(job);
        }
        let called = &viewer.called;
        tracing::warn!(target: AUDIT, "{called} may not {what} job {id} of user {:?}", job.user);
        crate::metrics::refused(crate::metrics::RefusalReason::Role);
        Err(Status::permission_denied(format!(
            "job {id} is another user's, which {called} may not {what}; its user or an administrator may"
        )))
    }

    /// Passes a change to the core, and returns the changed job.
    async fn change(&self, id: u64, input: Scheduled) -> Result<Response<v1::JobReply>, Status> {
        self.driver.input(Input::Schedule(input));
        self.driver.durable().await?;
        self.changed(id)
    }

    /// Returns a changed job.
    fn changed(&self, id: u64) -> Result<Response<v1::JobReply>, Status> {
        let view = self.driver.with_cluster(|cluster| {
            let scheduler = cluster.scheduler();
            let found = scheduler.job(JobId(id))?;
            let explained = scheduler.explain(JobId(id));
            Some(v1::Job {
                job: id,
                user: found.user.clone(),
                state: state(scheduler, &found).into(),
                position: explained
                    .as_ref()
                    .and_then(|explained| explained.position)
                    .map_or(0, |position| u32::try_from(position).unwrap_or(u32::MAX)),
                why: explained
                    .and_then(|explained| explained.reason)
                    .map(|why| why.to_string())
                    .or_else(|| why_suspended(scheduler, JobId(id)))
                    .unwrap_or_default(),
                ..v1::Job::default()
            })
        });
        Ok(Response::new(v1::JobReply { job: view }))
    }

    async fn hold(&self, request: Request<v1::JobRequest>, held: bool) -> Result<Response<v1::JobReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::ChangeOwnJobs)?);
        let request = request.into_inner();
        check_version(request.version)?;
        let (id, what) = (request.job, if held { "hold" } else { "release" });
        let job = self.changeable(&viewer, id, what)?;
        if job.phase != Phase::Waiting {
            let cause = format!("job {id} does not wait: only waiting jobs are held and released");
            return Err(Status::failed_precondition(cause));
        }
        if !held && !self.driver.with_cluster(|cluster| cluster.scheduler().is_on_hold(JobId(id))) {
            return Err(Status::failed_precondition(format!("job {id} is not on hold; see `accord queue`")));
        }
        if !viewer.owns(&job) {
            tracing::warn!(target: AUDIT, "{} {what}s job {id} of user {:?}", viewer.called, job.user);
        }
        self.change(id, Scheduled::Hold { job: JobId(id), held }).await
    }
}

#[tonic::async_trait]
impl v1::jobs_server::Jobs for Jobs {
    async fn queue(&self, request: Request<v1::QueueRequest>) -> Result<Response<v1::QueueReply>, Status> {
        let caller = Caller::check(&request, Act::SeeJobs)?.clone();
        let request = request.into_inner();
        check_version(request.version)?;
        let viewer = Viewer::of(&caller);
        let driver = self.driver.clone();
        let page = move |view: &View| queue_page(&driver, view, &viewer, request.from);
        Ok(Response::new(self.questions.ask(&caller, &self.driver, Some(request.view), page).await?))
    }

    async fn cancel_job(&self, request: Request<v1::JobRequest>) -> Result<Response<v1::JobReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::ChangeOwnJobs)?);
        let request = request.into_inner();
        check_version(request.version)?;
        let job = self.changeable(&viewer, request.job, "cancel")?;
        if job.phase == Phase::Releasing {
            let id = request.job;
            return Err(Status::failed_precondition(format!("job {id} has ended already; see `accord history`")));
        }
        let by = if viewer.owns(&job) { job.user } else { viewer.called };
        self.change(request.job, Scheduled::Cancel { job: job.job, by }).await
    }

    async fn hold_job(&self, request: Request<v1::JobRequest>) -> Result<Response<v1::JobReply>, Status> {
        self.hold(request, true).await
    }

    async fn release_job(&self, request: Request<v1::JobRequest>) -> Result<Response<v1::JobReply>, Status> {
        self.hold(request, false).await
    }

    async fn suspend_job(&self, request: Request<v1::SuspendJobRequest>) -> Result<Response<v1::JobReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::ChangeOwnJobs)?);
        let v1::SuspendJobRequest { version, job: id, reason } = request.into_inner();
        check_version(version)?;
        let job = self.changeable(&viewer, id, "suspend")?;
        let by = suspensions::right_of(&self.driver, viewer, job.job)?;
        suspensions::suspend(&self.driver, job.job, by, cut(&reason, WORDS_MAX).to_owned()).await?;
        self.changed(id)
    }

    async fn resume_job(&self, request: Request<v1::JobRequest>) -> Result<Response<v1::JobReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::ChangeOwnJobs)?);
        let v1::JobRequest { version, job: id } = request.into_inner();
        check_version(version)?;
        let job = self.changeable(&viewer, id, "resume")?;
        let by = suspensions::right_of(&self.driver, viewer, job.job)?;
        suspensions::resume(&self.driver, job.job, by).await?;
        self.changed(id)
    }

    async fn explain_job(&self, request: Request<v1::JobRequest>) -> Result<Response<v1::ExplainReply>, Status> {
        let caller = Caller::check(&request, Act::SeeJobs)?.clone();
        let request = request.into_inner();
        check_version(request.version)?;
        let (viewer, driver) = (Viewer::of(&caller), self.driver.clone());
        let question = move |view: &View| -> Result<v1::ExplainReply, Status> {
            let (scheduler, others) = (view.scheduler(), view.others_jobs());
            let found = scheduler.job(JobId(request.job)).ok_or_else(|| no_job(request.job))?;
            if !viewer.sees(&found, others) {
                let (id, called) = (request.job, &viewer.called);
                tracing::warn!(target: AUDIT, "{called} may not explain job {id} of user {:?}", found.user);
                return Err(Status::permission_denied(format!(
                    "job {id} is another user's, and the policy shows only how many others have; its user or an administrator sees more"
                )));
            }
            let mut lines = explain(scheduler, &found, &|other| viewer.sees(other, others));
            if let Some(name) = reservation_of(scheduler, &found) {
                let times = driver.with_cluster(|cluster| cluster.reservation_times(driver.now(), &name));
                lines.extend(
                    times.map(|(starts, ends)| format!("the reservation {name} is from {starts} until {ends}")),
                );
                lines.truncate(EXPLANATION_LINES_MAX);
            }
            let mut displayed = job(view, scheduler, &found, program_of(&driver, found.job));
            if found.phase == Phase::Waiting {
                let position = scheduler.explain(found.job).and_then(|explained| explained.position).unwrap_or(0);
                let starts = scheduler.clone().start_of(found.job).map(|(at, _)| at);
                let position = u32::try_from(position).unwrap_or(u32::MAX);
                add_wait(&mut displayed, view, scheduler, position, starts);
            } else {
                displayed.starts_unix_ms = scheduler.clone().resumption_of(found.job).map(|at| view.unix_ms(at));
                if let Some(used) = driver.job_use(found.job) {
                    add_use(&mut displayed, used);
                }
            }
            Ok(v1::ExplainReply { job: Some(displayed), lines, unix_ms: unix_ms() })
        };
        Ok(Response::new(self.questions.ask(&caller, &self.driver, None, question).await??))
    }

    async fn what_if(&self, request: Request<v1::WhatIfRequest>) -> Result<Response<v1::WhatIfReply>, Status> {
        let caller = Caller::check(&request, Act::SeeJobs)?.clone();
        let request = request.into_inner();
        check_version(request.version)?;
        let mut wanted: accord_scheduler::Request =
            request.request.parse().map_err(|error: TextError| Status::invalid_argument(error.to_string()))?;
        let user = Viewer::of(&caller).user.unwrap_or_else(|| caller.called());
        self.groups.notify(&self.driver, &user).await;
        let known = self.driver.with_cluster(|cluster| {
            let origin = cluster.node_named(&request.node_name).map(|node| node.id);
            let leaf = cluster.account_for(&user, wanted.account.as_deref())?;
            let limit = cluster.default_limit(&leaf.name);
            Ok::<_, String>((leaf, limit, origin))
        });
        let (leaf, limit, origin) = match known {
            Ok(known) => known,
            Err(why) => {
                let outcome = v1::WhatIfOutcome::Refused.into();
                return Ok(Response::new(v1::WhatIfReply {
                    outcome,
                    why,
                    unix_ms: unix_ms(),
                    ..v1::WhatIfReply::default()
                }));
            }
        };
        wanted.limit_ms = wanted.limit_ms.or(limit);
        let question = move |view: &View| {
            let (names, mut scheduler) = (view.scheduler(), view.scheduler().clone());
            let name = leaf.name.clone();
            scheduler.apply(view.now(), Scheduled::AccountAdded(Box::new(leaf)), &mut Vec::new());
            let account = name.strip_suffix(&format!("/{user}")).unwrap_or(&name).to_owned();
            let forecast = scheduler.what_if(&user, &name, origin, wanted);
            what_if_reply(view, names, account, forecast)
        };
        Ok(Response::new(self.questions.ask(&caller, &self.driver, None, question).await?))
    }

    async fn history(&self, request: Request<v1::HistoryRequest>) -> Result<Response<v1::HistoryReply>, Status> {
        let viewer = Viewer::of(Caller::check(&request, Act::SeeJobs)?);
        let request = request.into_inner();
        check_version(request.version)?;
        let now = self.driver.now();
        let (page, since_unix_ms) = self.driver.with_cluster(|cluster| {
            let only = viewer.only(cluster.others_jobs());
            (cluster.ended_jobs(now, only, request.before), cluster.history_since())
        });
        let (mut space, mut jobs) = (PageSpace::new(), Vec::new());
        let next = space.fill(&mut jobs, page.jobs.into_iter().map(|job| (job.number, ended(job))));
        // The next page begins with the job that did not fit.
        let next = next.map(|number| number + 1).or(page.next);
        Ok(Response::new(v1::HistoryReply { jobs, next, since_unix_ms }))
    }

    async fn usage(&self, request: Request<v1::UsageRequest>) -> Result<Response<v1::UsageReply>, Status> {
        let caller = Caller::check(&request, Act::SeeJobs)?.clone();
        let request = request.into_inner();
        check_version(request.version)?;
        let by = match request.by() {
            v1::UsageBy::User => UsageBy::User,
            v1::UsageBy::Account => UsageBy::Account,
            v1::UsageBy::Day => UsageBy::Day,
            v1::UsageBy::Unspecified => return Err(Malformed("usage by nothing").into()),
        };
        let (viewer, driver) = (Viewer::of(&caller), self.driver.clone());
        let question = move || usage_page(&driver, &viewer, by, request.from);
        Ok(Response::new(self.questions.work(&caller, question).await?))
    }

    async fn change_job(&self, request: Request<v1::ChangeJobRequest>) -> Result<Response<v1::JobReply>, Status> {
        let user_name = Caller::check(&request, Act::ChangeAllJobs)?.called();
        let v1::ChangeJobRequest { version, job: id, limit_ms, first } = request.into_inner();
        check_version(version)?;
        let job = self.driver.with_cluster(|cluster| cluster.scheduler().job(JobId(id))).ok_or_else(|| no_job(id))?;
        if limit_ms.is_some_and(|limit| limit == 0 || limit > TIME_MAX_MS) {
            return Err(Malformed("a limit that is no time").into());
        }
        if first && job.phase != Phase::Waiting {
            return Err(Status::failed_precondition(format!("job {id} does not wait: it has no place before others")));
        }
        if job.phase == Phase::Releasing {
            return Err(Status::failed_precondition(format!("job {id} has ended already; see `accord history`")));
        }
        let job = JobId(id);
        if first {
            self.driver.input(Input::Schedule(Scheduled::ToFront { job, by: user_name.clone() }));
        }
        let change = match limit_ms {
            Some(limit_ms) => Scheduled::SetLimit { job, limit_ms, by: user_name },
            None => Scheduled::Tick,
        };
        self.change(id, change).await
    }

    async fn pause(&self, request: Request<v1::PauseRequest>) -> Result<Response<v1::PauseReply>, Status> {
        let by = Caller::check(&request, Act::PauseJobs)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        self.driver.input(Input::Schedule(Scheduled::Pause { paused: request.pause, by }));
        self.driver.durable().await?;
        let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
        let (waiting, running) = self.driver.with_cluster(|cluster| {
            let scheduler = cluster.scheduler();
            (count(scheduler.waiting()), count(scheduler.running()))
        });
        Ok(Response::new(v1::PauseReply { waiting, running }))
    }
}

/// Returns a page of the queue, from an index in the list of jobs that the viewer may see.
fn queue_page(driver: &Driver, view: &View, viewer: &Viewer, from: u64) -> v1::QueueReply {
    let (scheduler, listed, others) = (view.scheduler(), view.listed(), view.others_jobs());
    let mut reply = v1::QueueReply {
        view: view.number,
        paused: scheduler.is_paused(),
        unix_ms: unix_ms(),
        ..v1::QueueReply::default()
    };
    let mut seen = Vec::new();
    for &(id, position) in &listed.jobs {
        let Some(job) = scheduler.job(id) else { continue };
        if viewer.sees(&job, others) {
            seen.push((job, position));
        } else if job.phase == Phase::Waiting {
            reply.others_waiting += 1;
        } else {
            reply.others_running += 1;
        }
    }
    let messages = (0..).zip(&seen).skip(usize::try_from(from).unwrap_or(usize::MAX)).map(|(at, (found, position))| {
        let mut displayed = job(view, scheduler, found, program_of(driver, found.job));
        if found.phase == Phase::Waiting {
            add_wait(&mut displayed, view, scheduler, *position, listed.starts.get(&found.job).copied());
        } else {
            displayed.starts_unix_ms = listed.starts.get(&found.job).map(|at| view.unix_ms(*at));
            if let Some(used) = driver.job_use(found.job) {
                add_use(&mut displayed, used);
            }
        }
        (at, displayed)
    });
    reply.next = PageSpace::new().fill(&mut reply.jobs, messages);
    reply
}

/// Returns the name of a job's program, and the wall clock time of its request.
fn program_of(driver: &Driver, id: JobId) -> Option<(String, u64)> {
    driver.with_cluster(|cluster| cluster.program_of(id).map(|(name, asked)| (cut(name, NAME_MAX).to_owned(), asked)))
}

/// A page of what was used by users, accounts or days that a viewer sees, from a place in the list.
pub(super) fn usage_page(driver: &Driver, viewer: &Viewer, by: UsageBy, from: u64) -> v1::UsageReply {
    let (usage, others) = (driver.usage(), driver.with_cluster(accord_cluster::Cluster::others_jobs));
    let rows = usage.by(by, viewer.only(others)).into_iter().map(|line| {
        let ms = |of: u128, part: u128| u64::try_from(of / part).unwrap_or(u64::MAX);
        v1::UsageRow {
            name: line.name,
            device_ms: ms(line.row.usage.milli_ms, 1_000),
            billed_ms: ms(line.row.usage.billed, 1_000_000),
            jobs: line.row.jobs,
            busy_ms: line.row.activity.busy_ms,
            unknown_ms: ms(line.row.unknown_milli_ms, 1_000),
            bytes_in: line.row.activity.bytes_in,
            bytes_out: line.row.activity.bytes_out,
        }
    });
    let (mut space, mut page) = (PageSpace::new(), Vec::new());
    let next = space.fill(&mut page, (0..).zip(rows).skip(usize::try_from(from).unwrap_or(usize::MAX)));
    v1::UsageReply { rows: page, next, since_unix_ms: usage.since_unix_ms, unix_ms: unix_ms() }
}

fn what_if_reply(view: &View, names: &Scheduler, account: String, forecast: Forecast) -> v1::WhatIfReply {
    let reply = v1::WhatIfReply { account, unix_ms: view.unix_ms(view.now()), ..v1::WhatIfReply::default() };
    let count = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
    match forecast {
        Forecast::Refused(why) => {
            v1::WhatIfReply { outcome: v1::WhatIfOutcome::Refused.into(), why: why.to_string(), ..reply }
        }
        Forecast::Now(found) => {
            v1::WhatIfReply { outcome: v1::WhatIfOutcome::Now.into(), devices: devices(names.by_node(&found)), ..reply }
        }
        Forecast::At { starts, reserved, reason, position } => v1::WhatIfReply {
            outcome: v1::WhatIfOutcome::Later.into(),
            why: reason.to_string(),
            position: count(position),
            starts_unix_ms: Some(view.unix_ms(starts)),
            reserved,
            ..reply
        },
        Forecast::Unknown { reason, position } => v1::WhatIfReply {
            outcome: v1::WhatIfOutcome::Unknown.into(),
            why: reason.to_string(),
            position: count(position),
            ..reply
        },
    }
}
