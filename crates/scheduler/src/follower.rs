//! A copy of the scheduler that follows by replaying its inputs. Queries run on the copy while the scheduler continues
//! to decide.
//!
//! Schedulers with equal inputs are equal, so the copy is made only once. Copying 80,000 devices takes as long as
//! thousands of decisions.

use crate::{Input, Millis, Scheduler};

/// Most inputs that a copy may miss. A copy that misses more is replaced by a new one, which delays one decision in so
/// many.
pub const LACKING_MAX: usize = 1 << 16;

/// The inputs that the copy has not received.
#[derive(Debug, Default)]
pub struct InputLog {
    /// `None` without a copy, or if the copy misses too many.
    inputs: Option<Vec<(Millis, Input)>>,
}

/// The inputs that bring a copy up to date, or a new copy.
#[derive(Clone, Debug)]
pub enum Missing {
    /// The inputs since the last call.
    Inputs(Vec<(Millis, Input)>),
    /// A whole scheduler.
    Everything(Box<Scheduler>),
}

/// The copy of a scheduler.
#[derive(Debug, Default)]
pub struct Follower {
    scheduler: Option<Scheduler>,
}

impl Default for Missing {
    fn default() -> Self {
        Self::Inputs(Vec::new())
    }
}

impl InputLog {
    /// Notes an input of the scheduler.
    pub fn note(&mut self, now: Millis, input: &Input) {
        match &mut self.inputs {
            Some(inputs) if inputs.len() < LACKING_MAX => inputs.push((now, input.clone())),
            lacking => *lacking = None,
        }
    }

    /// Returns how many inputs the copy has not received; 0 without a copy.
    #[must_use]
    pub fn lacking(&self) -> usize {
        self.inputs.as_ref().map_or(0, Vec::len)
    }

    /// Returns the inputs since the last call, or the whole scheduler if there is no copy.
    pub fn take(&mut self, scheduler: &Scheduler, has_copy: bool) -> Missing {
        match self.inputs.replace(Vec::new()) {
            Some(inputs) if has_copy => Missing::Inputs(inputs),
            _ => Missing::Everything(Box::new(scheduler.clone())),
        }
    }
}

impl Follower {
    /// Whether there is a copy that can replay inputs.
    #[must_use]
    pub fn has_copy(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Brings the copy up to date and returns it; `None` if the copy misses earlier inputs.
    pub fn follow(&mut self, missing: Missing) -> Option<&Scheduler> {
        // The copy is taken out meanwhile, so that a panic leaves no copy instead of one that misses an input.
        let scheduler = match (missing, self.scheduler.take()) {
            (Missing::Everything(mut copy), _) => {
                copy.forget_changes();
                *copy
            }
            (Missing::Inputs(inputs), Some(mut copy)) => {
                let mut decided = Vec::new();
                for (now, input) in inputs {
                    copy.apply(now, input, &mut decided);
                    decided.clear();
                }
                copy
            }
            (Missing::Inputs(_), None) => return None,
        };
        Some(self.scheduler.insert(scheduler))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(at: u64) -> (Millis, Input) {
        (Millis(at), Input::Pause { paused: at % 2 == 1, by: "admin root".to_owned() })
    }

    #[test]
    fn a_copy_takes_inputs_and_is_made_anew_once_it_lacks_too_many() {
        let (mut scheduler, mut log, mut follower) = (Scheduler::default(), InputLog::default(), Follower::default());
        let apply = |scheduler: &mut Scheduler, log: &mut InputLog, at| {
            let (now, input) = pause(at);
            log.note(now, &input);
            scheduler.apply(now, input, &mut Vec::new());
        };
        apply(&mut scheduler, &mut log, 1);
        assert_eq!(log.lacking(), 0);
        assert!(Follower::default().follow(Missing::Inputs(vec![pause(1)])).is_none());
        let mut follow = |scheduler: &Scheduler, log: &mut InputLog| {
            let missing = log.take(scheduler, follower.has_copy());
            let lacked = match &missing {
                Missing::Inputs(inputs) => Some(inputs.len()),
                Missing::Everything(_) => None,
            };
            let copy = follower.follow(missing).unwrap();
            assert_eq!((copy.is_paused(), copy.now()), (scheduler.is_paused(), scheduler.now()));
            lacked
        };
        assert_eq!(follow(&scheduler, &mut log), None);
        apply(&mut scheduler, &mut log, 2);
        assert_eq!(follow(&scheduler, &mut log), Some(1));
        for at in 3..=2 + LACKING_MAX as u64 {
            apply(&mut scheduler, &mut log, at);
        }
        assert_eq!(follow(&scheduler, &mut log), Some(LACKING_MAX));
        for at in 0..=LACKING_MAX as u64 {
            apply(&mut scheduler, &mut log, 1_000_000 + at);
        }
        assert_eq!((log.lacking(), follow(&scheduler, &mut log)), (0, None));
        assert_eq!(follow(&scheduler, &mut log), Some(0));
    }
}
