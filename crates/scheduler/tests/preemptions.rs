//! Running jobs give way to waiting ones of a higher priority or within a guarantee, and go on by themselves.

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::saved::SavedScheduler;
use accord_scheduler::{
    Effect, Forecast, Input, JobId, Millis, OWNER_AGAIN_MS, Phase, Policy, RESUME_AGAIN_MS, Scheduler, SuspensionCause,
    SuspensionStage,
};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const POLICY: &str = "preempt-mode = \"suspend\"\n[site]\npriorities = [0, 9]\n";

fn node(id: u32, devices: u32) -> NodeDescription {
    let class =
        DeviceClass { kind: DeviceType::Nvidia, model: "d".to_owned(), memory: 1 << 30, context: 0, compute: (0, 0) };
    NodeDescription {
        id: NodeId(id),
        name: format!("h{id}"),
        incarnation: 1,
        devices: (0..devices).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
        cores: 0,
        host_memory: 2 << 30,
        labels: BTreeMap::new(),
    }
}

fn policy(text: &str) -> Policy {
    SitePolicy::read(text, None).unwrap().tree([])
}

struct Site {
    scheduler: Scheduler,
    now: u64,
}

impl Site {
    /// Creates a cluster with one node.
    fn new(text: &str, devices: u32) -> Self {
        let mut site = Self { scheduler: Scheduler::new(policy(text)), now: 0 };
        site.give(Input::NodeJoined(node(0, devices)));
        site
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut effects);
        self.scheduler.check_invariants().unwrap();
        effects
    }

    fn ask_as(&mut self, account: &str, request: &str) -> Vec<Effect> {
        let (user, account) = ("eva".to_owned(), account.to_owned());
        self.give(Input::Ask { user, account, origin: None, request: request.parse().unwrap() })
    }

    fn ask(&mut self, request: &str) -> Vec<Effect> {
        self.ask_as("site", request)
    }

    /// Lets time pass, as the scheduler's own deadlines have it. Returns all effects.
    fn wait(&mut self, ms: u64) -> Vec<Effect> {
        let (until, mut effects) = (self.now + ms, Vec::new());
        while let Some(next) = self.scheduler.next_deadline().filter(|next| next.0 <= until) {
            self.now = self.now.max(next.0);
            effects.extend(self.give(Input::Tick));
        }
        self.now = until;
        effects
    }

    fn suspended(&mut self, job: u64, outcome: Result<(), &str>) -> Vec<Effect> {
        self.give(Input::Suspended { job: JobId(job), node: NodeId(0), outcome: outcome.map_err(str::to_owned) })
    }

    fn resumed(&mut self, job: u64, outcome: Result<(), &str>) -> Vec<Effect> {
        self.give(Input::Resumed { job: JobId(job), node: NodeId(0), outcome: outcome.map_err(str::to_owned) })
    }

    /// Ends a job, whose devices are free at once.
    fn end(&mut self, job: u64) -> Vec<Effect> {
        let mut effects = self.give(Input::Ended { job: JobId(job) });
        effects.extend(self.give(Input::Released { job: JobId(job), node: NodeId(0) }));
        effects
    }

    fn stage(&self, job: u64) -> Option<SuspensionStage> {
        self.scheduler.stage_of(JobId(job))
    }

    fn runs(&self, job: u64) -> bool {
        self.scheduler.job(JobId(job)).is_some_and(|job| job.phase == Phase::Running) && self.stage(job).is_none()
    }

    fn restart(&mut self, text: &str, devices: u32) {
        let names: Vec<String> = self.scheduler.account_names().map(str::to_owned).collect();
        let account = |name: &String| Some((name.clone(), self.scheduler.saved_account(name)?));
        let saved = SavedScheduler {
            classes: self.scheduler.saved_classes(),
            accounts: names.iter().filter_map(account).collect(),
            jobs: self.scheduler.job_ids().filter_map(|id| self.scheduler.saved_job(id)).collect(),
            counters: self.scheduler.saved_counters(),
            site: self.scheduler.saved_site(),
        };
        let nodes = [(node(0, devices), true)];
        self.scheduler = Scheduler::restore(Millis(self.now), policy(text), &nodes, saved).unwrap();
        self.scheduler.check_invariants().unwrap();
    }
}

/// Returns the jobs that agents are to suspend.
fn asked_to_give_way(effects: &[Effect]) -> Vec<u64> {
    let job = |effect: &Effect| match effect {
        Effect::Suspend { job, .. } => Some(job.0),
        _ => None,
    };
    effects.iter().filter_map(job).collect()
}

#[test]
fn a_job_gives_way_to_a_higher_priority_and_goes_on_before_others_of_its_own() {
    let mut site = Site::new(POLICY, 2);
    site.ask("2:nvidia limit=10h");
    site.now = MINUTE;
    assert_eq!(asked_to_give_way(&site.ask("2:nvidia limit=1h priority=5")), [0; 0], "it has just started");
    site.ask("1:nvidia limit=30m");
    let effects = site.wait(9 * MINUTE - 1);
    assert_eq!(asked_to_give_way(&effects), [0; 0]);
    assert_eq!(asked_to_give_way(&site.wait(1)), [1], "ten minutes after its start");
    assert!(!site.runs(2), "the memory is not in host memory yet");
    site.suspended(1, Ok(()));
    assert!(site.runs(2) && !site.runs(3));
    let suspension = site.scheduler.suspension(JobId(1)).unwrap();
    assert_eq!(suspension.cause, SuspensionCause::Preemption { by: JobId(2) });
    assert_eq!((suspension.by.as_str(), suspension.stage), ("job 2", SuspensionStage::Waiting));
    let resumption = site.scheduler.clone().resumption_of(JobId(1));
    assert_eq!(resumption, Some(Millis(site.now + HOUR)));
    assert_eq!(site.scheduler.clone().starts().get(&JobId(1)), resumption.as_ref());
    site.now += 30 * MINUTE;
    site.end(2);
    assert_eq!(site.stage(1), Some(SuspensionStage::Resuming));
    let effects = site.resumed(1, Ok(()));
    let ends = Effect::LeaseEnds { job: JobId(1), ends: Millis(site.now + 10 * HOUR - 10 * MINUTE) };
    assert!(site.runs(1) && !site.runs(3) && effects.contains(&ends), "{effects:?}");
}

#[test]
fn a_job_that_went_on_is_left_alone_for_a_quantum() {
    let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 1);
    site.ask("1:nvidia limit=2d");
    assert_eq!(asked_to_give_way(&site.ask("1:nvidia limit=10m priority=1")), [1]);
    site.suspended(1, Ok(()));
    site.end(2);
    site.resumed(1, Ok(()));
    site.now += MINUTE;
    assert_eq!(asked_to_give_way(&site.ask("1:nvidia limit=10m priority=1")), [0; 0]);
    assert_eq!(asked_to_give_way(&site.wait(58 * MINUTE)), [0; 0]);
    assert_eq!(asked_to_give_way(&site.wait(2 * MINUTE)), [1]);
    assert_eq!(site.stage(1), Some(SuspensionStage::Suspending));
}

#[test]
fn a_job_that_can_t_be_suspended_runs_on_and_is_asked_again_after_a_quantum() {
    let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 2);
    site.ask("1:nvidia limit=2d");
    site.ask("1:nvidia limit=2d");
    site.now = 10;
    assert_eq!(asked_to_give_way(&site.ask("2:nvidia limit=10m priority=1")), [2, 1]);
    site.suspended(2, Ok(()));
    assert_eq!(site.stage(2), Some(SuspensionStage::Waiting), "it is held back while the other one is asked");
    site.suspended(1, Err("no room"));
    // The one that was suspended in vain goes on at once.
    assert_eq!((site.stage(1), site.stage(2)), (Some(SuspensionStage::Undoing), Some(SuspensionStage::Resuming)));
    site.resumed(1, Ok(()));
    site.resumed(2, Ok(()));
    assert!(site.runs(1) && site.runs(2) && !site.runs(3));
    assert_eq!(site.scheduler.suspension_refused(JobId(1)), Some("node h0: no room"));
    assert_eq!(asked_to_give_way(&site.wait(HOUR - 1)), [0; 0]);
    assert_eq!(asked_to_give_way(&site.wait(1_000)), [2, 1]);
}

#[test]
fn the_lowest_priority_gives_way_and_no_more_jobs_than_needed() {
    let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 4);
    for priority in [2, 1, 3, 1] {
        site.now += 1;
        site.ask(&format!("1:nvidia limit=2d priority={priority}"));
    }
    assert_eq!(asked_to_give_way(&site.ask("4:nvidia limit=1h priority=3")), [0; 0], "job 3 stays");
    site.give(Input::Cancel { job: JobId(5), by: "eva".to_owned() });
    site.now += 2_000;
    assert_eq!(asked_to_give_way(&site.ask("1:nvidia limit=1h priority=5")), [4], "of equal ones the latest");
    site.now += 2_000;
    assert_eq!(asked_to_give_way(&site.ask("2:nvidia limit=1h priority=5")), [2, 1]);
}

#[test]
fn a_lent_guarantee_comes_back_at_once_and_no_job_within_one_gives_way() {
    let text = "preempt-mode = \"suspend\"\npreempt-exempt-time = \"0s\"\n[account.a]\nguaranteed = { nvidia = 2 }\n\
                users = [\"*\"]\n[account.b]\nusers = [\"eva\"]\ndefault-for = [\"eva\"]\npriorities = [0, 9]\n";
    let mut site = Site::new(text, 2);
    let effects = site.ask_as("b/eva", "2:nvidia limit=30m");
    assert!(site.runs(1), "{effects:?}");
    assert_eq!(asked_to_give_way(&site.ask_as("a", "1:nvidia limit=5h")), [1]);
    site.suspended(1, Ok(()));
    assert!(site.runs(2));
    site.now += 2 * HOUR;
    assert_eq!(asked_to_give_way(&site.ask_as("b/eva", "2:nvidia limit=1h priority=9")), [0; 0]);
    let text = site.scheduler.suspension(JobId(1)).unwrap().reason;
    assert_eq!(text, "it is within the guarantee of its account");
}

#[test]
fn higher_priorities_pass_a_suspended_job_for_an_ageing_time_only() {
    for (waits, passes) in [(DAY - HOUR, true), (DAY + HOUR, false)] {
        let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 1);
        site.ask("1:nvidia limit=2d");
        site.ask("1:nvidia limit=9d priority=2");
        site.suspended(1, Ok(()));
        site.now = waits;
        site.ask("1:nvidia limit=1h");
        // It gives way to none of those that wait, as it runs with the highest priority.
        site.ask("1:nvidia limit=1h priority=2");
        site.end(2);
        assert_eq!((site.runs(4), site.runs(3)), (passes, false));
        let stage = if passes { SuspensionStage::Waiting } else { SuspensionStage::Resuming };
        assert_eq!(site.stage(1), Some(stage));
        if passes {
            site.end(4);
            assert_eq!(site.stage(1), Some(SuspensionStage::Resuming));
        }
    }
}

#[test]
fn a_job_whose_resumption_fails_is_tried_again_after_a_while() {
    let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 1);
    site.ask("1:nvidia limit=2d");
    site.ask("1:nvidia limit=1h priority=1");
    site.suspended(1, Ok(()));
    site.end(2);
    site.resumed(1, Err("no memory"));
    site.suspended(1, Ok(()));
    assert_eq!(site.stage(1), Some(SuspensionStage::Waiting));
    let resumes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Resume { .. }));
    assert!(!resumes(&site.wait(RESUME_AGAIN_MS - 1)));
    assert!(resumes(&site.wait(1)));
}

#[test]
fn a_job_that_waits_no_longer_gives_its_victim_back() {
    let mut site = Site::new(&format!("preempt-exempt-time = \"0s\"\n{POLICY}"), 1);
    site.ask("1:nvidia limit=2d");
    site.ask("1:nvidia limit=1h priority=1");
    site.give(Input::Cancel { job: JobId(2), by: "eva".to_owned() });
    site.suspended(1, Ok(()));
    assert_eq!(site.stage(1), Some(SuspensionStage::Resuming));
}

#[test]
fn owners_resume_only_what_they_have_suspended() {
    let mut site = Site::new(POLICY, 1);
    let suspend = |by: &str| Input::Suspend { job: JobId(1), by: by.to_owned(), reason: String::new() };
    let resume = |by: &str| Input::Resume { job: JobId(1), by: by.to_owned() };
    site.ask("1:nvidia limit=2d");
    site.give(suspend("eva"));
    site.suspended(1, Ok(()));
    // Its devices are not kept for it, as it is not charged for them.
    site.ask("1:nvidia limit=1h");
    site.give(resume("eva"));
    assert_eq!((site.stage(1), site.runs(2)), (Some(SuspensionStage::Waiting), true));
    site.end(2);
    site.resumed(1, Ok(()));
    assert!(site.runs(1));
    // Not again at once.
    site.now += OWNER_AGAIN_MS - 1;
    site.give(suspend("eva"));
    assert!(site.runs(1));
    site.now += 1;
    site.give(suspend("eva"));
    site.suspended(1, Ok(()));
    // An administrator takes the suspension over.
    site.give(suspend("admin root"));
    site.give(resume("eva"));
    assert_eq!(site.stage(1), Some(SuspensionStage::Suspended));
    assert_eq!(site.scheduler.suspension(JobId(1)).unwrap().cause, SuspensionCause::Administrator);
    site.give(resume("admin root"));
    assert_eq!(site.stage(1), Some(SuspensionStage::Resuming));
}

#[test]
fn neither_owner_nor_restart_changes_how_a_preempted_job_goes_on() {
    let text = format!("preempt-exempt-time = \"0s\"\n{POLICY}");
    let mut site = Site::new(&text, 1);
    site.ask("1:nvidia limit=2d");
    site.ask("1:nvidia limit=1h priority=1");
    let cause = Some(SuspensionCause::Preemption { by: JobId(2) });
    let check = |site: &mut Site, stage: SuspensionStage| {
        site.give(Input::Resume { job: JobId(1), by: "eva".to_owned() });
        site.restart(&text, 1);
        site.give(Input::Tick);
        let suspension = site.scheduler.suspension(JobId(1)).unwrap();
        assert_eq!((suspension.stage, Some(suspension.cause), suspension.by.as_str()), (stage, cause, "job 2"));
    };
    check(&mut site, SuspensionStage::Suspending);
    site.suspended(1, Ok(()));
    check(&mut site, SuspensionStage::Waiting);
    assert!(site.runs(2));
    site.end(2);
    check(&mut site, SuspensionStage::Resuming);
    site.resumed(1, Ok(()));
    site.restart(&text, 1);
    assert!(site.runs(1));
    assert_eq!(asked_to_give_way(&site.ask("1:nvidia limit=1h priority=1")), [0; 0], "it has just gone on");
    site.now += HOUR;
    assert_eq!(asked_to_give_way(&site.give(Input::Tick)), [1]);
}

#[test]
fn nothing_gives_way_unless_the_policy_says_so() {
    let mut site = Site::new("preempt-exempt-time = \"0s\"\n[site]\npriorities = [0, 9]\n", 1);
    site.ask("1:nvidia limit=2d");
    site.ask("1:nvidia limit=1h priority=1");
    assert_eq!(asked_to_give_way(&site.wait(DAY)), [0; 0]);
    let request = "1:nvidia limit=1h priority=9".parse().unwrap();
    let forecast = site.scheduler.clone().what_if("eva", "site", None, request);
    assert!(matches!(forecast, Forecast::At { .. }), "{forecast:?}");
}
