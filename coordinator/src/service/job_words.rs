//! Converts jobs to messages, with a description of their state.

use super::questions::View;
use super::suspensions::words;
use accord_proto::bounds::{EXPLANATION_LINES_MAX, JOB_TEXT_MAX};
use accord_proto::v1;
use accord_scheduler::ledger::{EndedJob, JobEvent, JobUse, Submission};
use accord_scheduler::path_class::PathClass;
use accord_scheduler::units::{long_time_text, milli_text};
use accord_scheduler::{
    DevicesOnNode, JobId, JobView, Millis, Phase, Quarantine, Request, Scheduler, SuspensionCause, SuspensionStage,
    SuspensionView, Usage,
};
use accord_types::texts::{NAME_MAX, WORDS_MAX, cut};
use accord_types::{Count, DeviceId, NodeId};
use std::collections::BTreeSet;

/// Most nodes that an explanation names.
const NODES_NAMED_MAX: usize = 8;

/// Returns a job's account without the last part, which is the user.
pub(super) fn account(view: &JobView) -> &str {
    view.account.strip_suffix(&view.user).and_then(|account| account.strip_suffix('/')).unwrap_or(&view.account)
}

/// Returns the state of a job.
pub(super) fn state(scheduler: &Scheduler, job: &JobView) -> v1::JobState {
    match job.phase {
        Phase::Waiting if scheduler.is_on_hold(job.job) => v1::JobState::OnHold,
        Phase::Waiting => v1::JobState::Waiting,
        Phase::Running => match scheduler.stage_of(job.job) {
            None | Some(SuspensionStage::Undoing) => v1::JobState::Running,
            Some(SuspensionStage::Suspending) => v1::JobState::Suspending,
            Some(SuspensionStage::Suspended | SuspensionStage::Waiting) => v1::JobState::Suspended,
            Some(SuspensionStage::Resuming) => v1::JobState::Resuming,
        },
        Phase::Releasing => v1::JobState::Releasing,
    }
}

/// Returns a job's message. `known` is the program's name, and the wall clock time of its request.
pub(super) fn job(view: &View, scheduler: &Scheduler, job: &JobView, known: Option<(String, u64)>) -> v1::Job {
    let (program, asked) = known.unwrap_or_else(|| (String::new(), view.unix_ms(job.submitted)));
    let request = scheduler.request(job.job).map(ToString::to_string).unwrap_or_default();
    v1::Job {
        job: job.job.0,
        user: cut(&job.user, NAME_MAX).to_owned(),
        account: cut(account(job), NAME_MAX).to_owned(),
        request: cut(&request, JOB_TEXT_MAX).to_owned(),
        program,
        state: state(scheduler, job).into(),
        asked_unix_ms: asked,
        started_unix_ms: job.started.map(|at| view.unix_ms(at)),
        ends_unix_ms: job.ends.map(|at| view.unix_ms(at)),
        devices: devices(scheduler.by_node(&job.devices)),
        why: cut(&why_suspended(scheduler, job.job).unwrap_or_default(), WORDS_MAX).to_owned(),
        suspended_unix_ms: scheduler.suspension(job.job).map(|suspension| view.unix_ms(suspension.since)),
        ..v1::Job::default()
    }
}

/// Returns why a job is suspended; `None` if it is not.
pub(super) fn why_suspended(scheduler: &Scheduler, job: JobId) -> Option<String> {
    let SuspensionView { stage, cause, by, reason, .. } = scheduler.suspension(job)?;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let waits = if stage == SuspensionStage::Waiting { "it waits for its devices to be free, " } else { "" };
    let by = if cause == SuspensionCause::Owner && !by.is_empty() { "its owner".to_owned() } else { by };
    Some(match by.is_empty() {
        true => format!("{waits}suspended under an earlier coordinator"),
        false => format!("{waits}suspended by {by}{because}"),
    })
}

/// Adds the reason for a job's wait and its expected start.
pub(super) fn add_wait(of: &mut v1::Job, view: &View, scheduler: &Scheduler, position: u32, starts: Option<Millis>) {
    let id = JobId(of.job);
    of.position = position;
    of.why =
        scheduler.explain(id).and_then(|explained| explained.reason).map(|why| why.to_string()).unwrap_or_default();
    of.starts_unix_ms = starts.map(|at| view.unix_ms(at));
    of.reserved = scheduler.reserved_start(id).is_some();
}

/// Adds the use of devices by a running job.
pub(super) fn add_use(of: &mut v1::Job, (held, did): (Usage, JobUse)) {
    of.held_ms = u64::try_from(held.milli_ms / 1_000).unwrap_or(u64::MAX);
    of.busy_ms = (!did.is_unknown).then_some(did.activity.busy_ms);
    (of.bytes_in, of.bytes_out) = (did.activity.bytes_in, did.activity.bytes_out);
}

fn event_message(event: &JobEvent) -> v1::JobEvent {
    v1::JobEvent { unix_ms: event.unix_ms, text: cut(&event.text, WORDS_MAX).to_owned() }
}

/// Returns devices as messages.
pub(super) fn devices(devices: Vec<DevicesOnNode>) -> Vec<v1::JobDevices> {
    let devices = devices.into_iter().map(|on| v1::JobDevices {
        node_name: on.node,
        model: on.model,
        ordinals: on.ordinals,
        share_milli: on.milli,
        memory: on.memory,
        exclusive: on.exclusive,
    });
    devices.collect()
}

/// Returns an ended job's message.
pub(super) fn ended(job: EndedJob) -> v1::EndedJob {
    let ms = |of: u128, part: u128| u64::try_from(of / part).unwrap_or(u64::MAX);
    let Submission { user, account, request, program, asked_unix_ms } = job.submission;
    let request = request.to_string();
    v1::EndedJob {
        job: job.job.0,
        user: cut(&user, NAME_MAX).to_owned(),
        account: cut(&account, NAME_MAX).to_owned(),
        request: cut(&request, JOB_TEXT_MAX).to_owned(),
        program: cut(&program, NAME_MAX).to_owned(),
        asked_unix_ms,
        started_unix_ms: job.started_unix_ms,
        ended_unix_ms: job.ended_unix_ms,
        waited_ms: job.waited_ms,
        ran_ms: job.ran_ms,
        devices: devices(job.devices),
        device_ms: ms(job.used.milli_ms, 1_000),
        billed_ms: ms(job.used.billed, 1_000_000),
        why: cut(&job.cause.to_string(), WORDS_MAX).to_owned(),
        busy_ms: (!job.did.is_unknown).then_some(job.did.activity.busy_ms),
        bytes_in: job.did.activity.bytes_in,
        bytes_out: job.did.activity.bytes_out,
        events: job.events.into_iter().map(|event| event_message(&event)).collect(),
    }
}

/// Explains why a job waits and what must happen for its start, or why it has its devices. Jobs that `is_seen` rejects
/// are counted but not named.
pub(super) fn explain(scheduler: &Scheduler, job: &JobView, is_seen: &dyn Fn(&JobView) -> bool) -> Vec<String> {
    let mut lines = match job.phase {
        Phase::Waiting => waiting(scheduler, job, is_seen),
        Phase::Running => running(scheduler, job),
        Phase::Releasing => {
            let nodes: Vec<String> = scheduler.by_node(&job.devices).into_iter().map(|on| on.node).collect();
            vec![format!(
                "it has ended, and the agents of {} have not confirmed yet that its devices are free",
                names(&nodes)
            )]
        }
    };
    lines.extend(quarantined(scheduler, job));
    let request = scheduler.request(job.job).map(ToString::to_string).unwrap_or_default();
    lines.insert(0, format!("job {} of user {}, account {}: {request}", job.job, job.user, account(job)));
    lines.truncate(EXPLANATION_LINES_MAX);
    lines.iter().map(|line| cut(line, WORDS_MAX).to_owned()).collect()
}

fn waiting(scheduler: &Scheduler, job: &JobView, is_seen: &dyn Fn(&JobView) -> bool) -> Vec<String> {
    let Some(explained) = scheduler.explain(job.job) else { return Vec::new() };
    let now = scheduler.now();
    let mut lines = vec![format!("it has waited for {}", long_time_text(now.since(job.submitted)))];
    lines.extend(explained.reason.map(|reason| format!("why: {reason}")));
    let giving_way: Vec<String> = scheduler.gave_way_to(job.job).map(|other| format!("job {other}")).collect();
    if !giving_way.is_empty() {
        lines.push(format!("it starts once these are suspended, which give way to it: {}", names(&giving_way)));
    }
    if scheduler.is_on_hold(job.job) {
        lines.push(format!("to start it has to be released: accord release {}", job.job));
        return lines;
    }
    lines.extend(explained.position.map(|position| match position {
        0 => "no job is before it".to_owned(),
        before => format!("{} before it", is_or_are(before, "job")),
    }));
    if scheduler.is_paused() {
        lines.push("to start, an administrator has to end the pause: accord pause --undo".to_owned());
        return lines;
    }
    let is_reserved = scheduler.reserved_start(job.job).is_some();
    let Some((at, devices)) = scheduler.clone().start_of(job.job) else {
        lines.push(no_start(scheduler, job));
        return lines;
    };
    let time = long_time_text(at.since(now));
    lines.push(if is_reserved {
        format!("it has a reserved start in {time}")
    } else {
        format!("it starts in {time} if each job lasts until its limit")
    });
    let nodes: BTreeSet<NodeId> = devices.iter().map(|device| device.node).collect();
    let nodes: Vec<String> = nodes.iter().filter_map(|node| scheduler.node_name(*node)).map(str::to_owned).collect();
    let holders: Vec<JobView> =
        scheduler.holders(devices.iter().copied()).into_iter().filter_map(|id| scheduler.job(id)).collect();
    let (seen, others): (Vec<&JobView>, Vec<&JobView>) = holders.iter().partition(|holder| is_seen(holder));
    let mut ends: Vec<String> = seen
        .iter()
        .map(|holder| {
            let ends = holder
                .ends
                .map_or_else(String::new, |at| format!(" (its lease ends in {})", long_time_text(at.since(now))));
            format!("job {}{ends}", holder.job)
        })
        .collect();
    if !others.is_empty() {
        ends.push(Count(others.len(), "job").to_string() + " of other users");
    }
    let place = format!("it gets {} on {}", Count(devices.len(), "device"), names(&nodes));
    lines.push(if ends.is_empty() { place } else { format!("{place} once these end: {}", ends.join(", ")) });
    lines
}

/// Returns the reservation that a job requests, or that delays its start.
pub(super) fn reservation_of(scheduler: &Scheduler, job: &JobView) -> Option<String> {
    use accord_scheduler::WaitReason;
    match scheduler.explain(job.job)?.reason {
        Some(WaitReason::Reservation { name, .. } | WaitReason::Reserved { name, .. }) => Some(name),
        _ => scheduler.request(job.job)?.reservation.clone(),
    }
}

/// Returns what keeps a job from ever starting, as far as this is known.
fn no_start(scheduler: &Scheduler, job: &JobView) -> String {
    use accord_scheduler::WaitReason;
    let reason = scheduler.explain(job.job).and_then(|explained| explained.reason);
    if let Some(lack) = scheduler.lack(job.job) {
        let on = scheduler.request(job.job).map(|request| nodes_of(request)).unwrap_or_default();
        return format!("{}{on}; the request has to change, or nodes have to join", WaitReason::Never(lack));
    }
    match reason {
        Some(WaitReason::NoSuchDevices) => {
            "to start, a node with such devices has to join; accord info shows what there is".to_owned()
        }
        Some(WaitReason::Guarantee) => {
            let quantum = long_time_text(scheduler.policy().quantum());
            format!(
                "to start, it needs a time limit of at most the quantum ({quantum}), or an administrator has to guarantee fewer devices to other accounts"
            )
        }
        Some(WaitReason::Spent { account }) => {
            format!(
                "to start, a month has to begin (UTC), or an administrator has to give account {account} more device-hours"
            )
        }
        Some(WaitReason::Running { account } | WaitReason::Most { account }) => {
            format!("to start, a job of account {account} has to end, and none of them has a time limit")
        }
        Some(WaitReason::Devices { model, .. }) if has_endless_job(scheduler, &model) => {
            format!(
                "to start, jobs that have {model} have to end, and not all of them have a time limit; or more of it has to join"
            )
        }
        Some(WaitReason::Devices { model, .. }) => {
            format!(
                "to start, jobs that have {model} have to end, and account {} has to be allowed its devices: they may be guaranteed to other accounts, or more than it may have",
                account(job)
            )
        }
        Some(WaitReason::HostMemory { model, .. }) => {
            format!("to start, jobs that have memory of nodes with {model} have to end, and they have no time limit")
        }
        Some(WaitReason::Cores { model, .. }) => {
            format!("to start, jobs that have cores of nodes with {model} have to end, and they have no time limit")
        }
        Some(WaitReason::Claimed { by, .. }) => {
            format!(
                "to start, job {by} has to start and end; with a limit that ends before job {by} starts, this job may start before it"
            )
        }
        _ => "no start is known".to_owned(),
    }
}

/// Returns which nodes a request chooses, in words; empty if it chooses none.
fn nodes_of(request: &Request) -> String {
    let labels = request.labels.iter().map(|(name, value)| format!("label={name}={value}"));
    let named = [("on", &request.only_nodes), ("avoid", &request.avoid_nodes)].into_iter();
    let named = named.filter(|(_, nodes)| !nodes.is_empty()).map(|(word, nodes)| format!("{word}={}", nodes.join(",")));
    let words: Vec<String> = labels.chain(named).collect();
    if words.is_empty() { String::new() } else { format!(" (it may use only nodes by {})", words.join(" ")) }
}

/// Whether a job without a time limit has devices of a model.
fn has_endless_job(scheduler: &Scheduler, model: &str) -> bool {
    let mut endless = scheduler.jobs(None).filter(|job| job.started.is_some() && scheduler.limit_ms(job.job).is_none());
    endless.any(|job| scheduler.by_node(&job.devices).iter().any(|on| on.model == model))
}

fn running(scheduler: &Scheduler, job: &JobView) -> Vec<String> {
    let now = scheduler.now();
    let mut lines = suspension(scheduler, job);
    if let Some(started) = job.started {
        let (waited, ran) = (started.since(job.submitted), now.since(started));
        lines.push(format!("it waited for {} and has run for {}", long_time_text(waited), long_time_text(ran)));
    }
    if let Some(ends) = job.ends {
        let left = long_time_text(ends.since(now));
        let is_limited = scheduler.limit_ms(job.job).is_some();
        lines.push(if is_limited {
            format!("its time limit ends it in {left}")
        } else {
            format!("it has no time limit: its lease is renewed in {left}, unless a job within its guarantee waits for these devices, or its account has spent its device-hours")
        });
    }
    let own = scheduler.origin(job.job).and_then(|node| scheduler.node_name(node));
    for on in scheduler.by_node(&job.devices) {
        let part = match (on.exclusive, on.milli, on.memory) {
            (true, ..) => "to itself".to_owned(),
            (false, 0, memory) => format!("{memory} bytes of memory, beside other jobs"),
            (false, milli, _) => format!("{} % of the time, beside other jobs", milli_text(u64::from(milli) * 100)),
        };
        let why = match own {
            Some(own) if own == on.node => ", its program's own node",
            _ => "",
        };
        lines.push(format!("{} ({}) on {}{why}: {part}", Count(on.ordinals.len(), "device"), on.model, on.node));
    }
    if let (Some(own), Some(request)) = (own, scheduler.request(job.job))
        && !scheduler.by_node(&job.devices).iter().any(|on| on.node == own)
    {
        use accord_scheduler::request::Locality;
        lines.push(match request.locality {
            Locality::Near | Locality::Pack | Locality::Spread => {
                "the request says how the devices lie to each other, which decided before the program's own node".to_owned()
            }
            Locality::OwnFirst | Locality::Local => {
                format!("{own}, its program's own node, had too few such devices free for as long as its limit when it started")
            }
        });
    }
    lines.extend(chosen_paths(scheduler, job));
    let rate = scheduler.rate(job.job);
    lines.push(format!(
        "it is charged {} of a device, billed as {}",
        milli_text(rate.milli),
        milli_text(rate.billed / 1_000)
    ));
    lines
}

/// Describes the suspension of a job, or why it can't be suspended.
fn suspension(scheduler: &Scheduler, job: &JobView) -> Vec<String> {
    let failed = scheduler.suspension_refused(job.job).map(|why| format!("the last order failed: {why}"));
    let Some(SuspensionView { stage, cause, since, left_ms, .. }) = scheduler.suspension(job.job) else {
        return failed.into_iter().collect();
    };
    let time = long_time_text(scheduler.now().since(since));
    let why = why_suspended(scheduler, job.job).unwrap_or_default();
    let mut lines = vec![format!("it {}, since {time}: {why}", words(stage))];
    lines.extend(left_ms.map(|left| format!("its time limit stands still, with {} left", long_time_text(left))));
    lines.extend(failed);
    match stage {
        SuspensionStage::Suspended => lines.push(format!("to go on it has to be resumed: accord resume {}", job.job)),
        SuspensionStage::Waiting => {
            let holders = scheduler.holders(job.devices.iter().map(|leased| leased.device));
            let holders: Vec<String> = holders.into_iter().map(|holder| format!("job {holder}")).collect();
            let others = if holders.is_empty() {
                "its devices have to be in order again".to_owned()
            } else {
                format!("{} has to end", names(&holders))
            };
            lines.push(match cause {
                SuspensionCause::Administrator => {
                    format!("to go on, {others}; its devices take no other job meanwhile")
                }
                SuspensionCause::Owner => format!("to go on, {others}; other jobs may take its devices meanwhile"),
                SuspensionCause::Preemption { .. } => format!(
                    "to go on, {others}; its devices take no other job meanwhile but those to which it would give way"
                ),
            });
            let resumption = scheduler.clone().resumption_of(job.job);
            lines.extend(resumption.map(|at| {
                let time = long_time_text(at.since(scheduler.now()));
                format!("it goes on in {time} if each job lasts until its limit")
            }));
        }
        SuspensionStage::Suspending | SuspensionStage::Resuming | SuspensionStage::Undoing => {}
    }
    lines
}

/// Names the quarantined devices that a job holds, or that fit a waiting job.
fn quarantined(scheduler: &Scheduler, job: &JobView) -> Vec<String> {
    let request = scheduler.request(job.job).filter(|_| job.phase == Phase::Waiting);
    let parts = || request.iter().flat_map(|request| &request.alternatives).flat_map(|choice| &choice.parts);
    let is_of = |device: DeviceId| match job.phase {
        Phase::Waiting => scheduler.class_of(device).is_some_and(|class| parts().any(|part| part.class.matches(class))),
        Phase::Running | Phase::Releasing => job.devices.iter().any(|leased| leased.device == device),
    };
    let known = scheduler.quarantines().filter(|(device, _)| is_of(*device)).take(NODES_NAMED_MAX);
    let line = |(device, quarantine): (DeviceId, &Quarantine)| {
        let node = scheduler.node_name(device.node)?;
        let time = long_time_text(scheduler.now().since(quarantine.since));
        Some(format!("{node}/{} is in quarantine for {time}: {}", device.ordinal, quarantine.reason))
    };
    known.filter_map(line).collect()
}

/// Names the kinds of paths from the program's node by which the other nodes were chosen.
fn chosen_paths(scheduler: &Scheduler, job: &JobView) -> Option<String> {
    let chosen = scheduler.chosen_paths(job.job)?;
    let classes: BTreeSet<PathClass> = chosen.classes.values().copied().collect();
    let of_class = |class: PathClass| {
        let is_of = |(node, of): (&NodeId, &PathClass)| (*of == class).then(|| scheduler.node_name(*node)).flatten();
        let nodes: Vec<String> = chosen.classes.iter().filter_map(is_of).map(str::to_owned).collect();
        format!("{} {} {class}", names(&nodes), if nodes.len() == 1 { "is" } else { "are" })
    };
    let nodes: Vec<String> = classes.into_iter().map(of_class).collect();
    let time = |class: PathClass| match chosen.times.get(class) {
        Some(ns) => format!("{class} (1 MiB takes {} us)", ns / 1_000),
        None => format!("{class} (not measured)"),
    };
    let order = chosen.times.order().map(time).join(", ");
    let nodes = nodes.join(", ");
    Some(format!("as seen from its program's own node, {nodes}; nodes come in this order: {order}"))
}

fn is_or_are(count: usize, thing: &'static str) -> String {
    format!("{} {}", Count(count, thing), if count == 1 { "is" } else { "are" })
}

/// Returns the names as a list, shortened if there are many.
fn names(names: &[String]) -> String {
    let mut text = names.iter().take(NODES_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NODES_NAMED_MAX {
        text.push_str(&format!(" and {} more", names.len() - NODES_NAMED_MAX));
    }
    text
}
