//! Why executors have ended, as their nodes' agents have it from the system and the coordinator passes it on. A program sees its lanes end, and
//! nothing more.

use accord_types::NodeId;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::BTreeMap;
use std::sync::Condvar;
use std::time::{Duration, Instant};

/// How long the word may come after the end of a lane.
const WORD_MAX: Duration = Duration::from_millis(200);
/// For so long it is about the executor whose lane has ended, and not about one before.
const COUNTS: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ExecutorEnds {
    /// The last of each node, and when it was told.
    told: ShortLock<BTreeMap<NodeId, (Instant, String)>>,
    changed: Condvar,
}

impl ExecutorEnds {
    /// The executor of a node has ended.
    pub(crate) fn tell(&self, node: NodeId, why: String) {
        self.told.lock().insert(node, (Instant::now(), why));
        self.changed.notify_all();
    }

    /// Why a lane to a node's executor has ended, of which it is known that `why`. Waits for the word.
    pub(crate) fn explain(&self, node: NodeId, why: &str) -> String {
        let counts = |told: &BTreeMap<NodeId, (Instant, String)>| {
            told.get(&node).filter(|(when, _)| when.elapsed() < COUNTS).map(|(_, end)| end.clone())
        };
        let unknown = |told: &mut BTreeMap<NodeId, (Instant, String)>| counts(told).is_none();
        let (told, _) = ShortGuard::wait_timeout_while(self.told.lock(), &self.changed, WORD_MAX, unknown);
        counts(&told).map_or_else(|| why.to_owned(), |end| format!("{why}; its process has ended: {end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_the_agent_knows_is_said_also_if_it_comes_late() {
        let ends = Arc::<ExecutorEnds>::default();
        let later = ends.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            later.tell(NodeId(3), "exit status: 1".to_owned());
            later.tell(NodeId(2), "signal: 9".to_owned());
        });
        assert_eq!(ends.explain(NodeId(2), "it was closed"), "it was closed; its process has ended: signal: 9");
        thread.join().unwrap();
        assert_eq!(ends.explain(NodeId(3), "it broke"), "it broke; its process has ended: exit status: 1");
        assert_eq!(ends.explain(NodeId(4), "it broke"), "it broke");
    }
}
