//! Which node of an MPI job has died, as the coordinator says it. The lanes of all of the job's nodes end then, one after the other, and
//! the one that a program waits on is most often another node's.

use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::Condvar;
use std::time::{Duration, Instant};

/// How long the coordinator's word may come after the end of a lane.
const WORD_MAX: Duration = Duration::from_millis(500);
/// For so long the first node that died is the one that took the others along.
const COUNTS: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct JobNews {
    died: ShortLock<Option<(Instant, String)>>,
    changed: Condvar,
}

impl JobNews {
    /// The coordinator has lost the agent of a node.
    pub(crate) fn has_died(&self, node_name: &str) {
        let mut died = self.lock();
        if !matches!(&*died, Some((when, _)) if when.elapsed() < COUNTS) {
            *died = Some((Instant::now(), node_name.to_owned()));
        }
        drop(died);
        self.changed.notify_all();
    }

    /// Why a lane has ended that went over MPI and of which it is known that `why`. Waits for the coordinator's word.
    pub(crate) fn explain(&self, why: &str) -> String {
        let unknown =
            |died: &mut Option<(Instant, String)>| !matches!(died, Some((when, _)) if when.elapsed() < COUNTS);
        let (died, is_late) = ShortGuard::wait_timeout_while(self.lock(), &self.changed, WORD_MAX, unknown);
        match &*died {
            Some((_, name)) if !is_late => {
                format!("{why}; the agent of node {name} has died, and an MPI job ends with any of its nodes")
            }
            _ => why.to_owned(),
        }
    }

    fn lock(&self) -> ShortGuard<'_, Option<(Instant, String)>> {
        self.died.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_node_is_named_also_if_its_name_comes_late() {
        let news = Arc::<JobNews>::default();
        let later = news.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            later.has_died("h2");
            later.has_died("h3");
        });
        let why = news.explain("it was closed");
        assert!(why.starts_with("it was closed; the agent of node h2 has died"), "{why}");
        thread.join().unwrap();
        assert!(news.explain("it was closed").contains("node h2"));
    }

    #[test]
    fn without_a_word_it_is_what_is_known() {
        assert_eq!(JobNews::default().explain("it was closed"), "it was closed");
    }
}
