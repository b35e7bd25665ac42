//! The node of an MPI world that died first, as the coordinator reports it. Then the lanes of all nodes of the world
//! end, one after the other. So the lane that a program waits on is usually another node's.

use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::Condvar;
use std::time::{Duration, Instant};

/// The longest time between the end of a lane and the coordinator's report.
const WORD_MAX: Duration = Duration::from_millis(500);
/// The time for which the first dead node counts as the cause of the others' ends.
const COUNTS: Duration = Duration::from_secs(10);

/// The dead nodes of the program's MPI job, as the coordinator reports them.
#[derive(Debug, Default)]
pub(crate) struct LostNodes {
    word: ShortLock<LostNodesState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LostNodesState {
    died: Option<(Instant, String)>,
    /// Time at which a thread first waited for the report.
    awaited: Option<Instant>,
}

impl LostNodesState {
    fn known(&self) -> Option<&str> {
        self.died.as_ref().filter(|(when, _)| when.elapsed() < COUNTS).map(|(_, name)| &**name)
    }
}

impl LostNodes {
    /// Records that the coordinator has lost the agent of a node.
    pub(crate) fn has_died(&self, node_name: &str) {
        let mut word = self.word.lock();
        if word.known().is_none() {
            word.died = Some((Instant::now(), node_name.to_owned()));
        }
        drop(word);
        self.changed.notify_all();
    }

    /// Waits for the coordinator's report on a lane over MPI that has ended, and returns the message. Does not wait
    /// again if no report arrived.
    pub(crate) fn wait_for_cause(&self) -> Option<String> {
        let mut word = self.word.lock();
        let awaited = word.awaited.filter(|since| since.elapsed() < COUNTS).unwrap_or_else(Instant::now);
        word.awaited = Some(awaited);
        let left = WORD_MAX.saturating_sub(awaited.elapsed());
        let (word, _) = ShortGuard::wait_timeout_while(word, &self.changed, left, |word| word.known().is_none());
        word.known()
            .map(|name| format!("the agent of node {name} has died, and an MPI world ends with any of its nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_node_is_named_also_if_its_name_comes_late() {
        let news = Arc::<LostNodes>::default();
        let later = news.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            later.has_died("h2");
            later.has_died("h3");
        });
        let why = news.wait_for_cause().expect("the word");
        assert!(why.starts_with("the agent of node h2 has died"), "{why}");
        thread.join().unwrap();
        assert_eq!(news.wait_for_cause(), Some(why));
    }

    #[test]
    fn wait_for_a_node_loss_report_happens_once() {
        let news = LostNodes::default();
        let begun = Instant::now();
        for _ in 0..20 {
            assert_eq!(news.wait_for_cause(), None);
        }
        assert!(begun.elapsed() < 10 * WORD_MAX, "{:?}", begun.elapsed());
        news.has_died("h2");
        assert!(news.wait_for_cause().is_some());
    }
}
