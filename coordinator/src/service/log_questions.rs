//! Questions for sessions' logs that wait for agents' answers.

use accord_cluster::LinkId;
use accord_proto::v1;
use std::collections::HashMap;
use tokio::sync::mpsc;

/// Questions for logs that are under way; one more is refused.
const LOG_QUESTIONS_MAX: usize = 16;
/// Those of one caller.
const LOG_QUESTIONS_OF_ONE_CALLER_MAX: usize = 2;

/// A question's answers: which connection has sent which log.
pub(super) type LogAnswers = mpsc::Sender<(LinkId, v1::SessionLog)>;

/// The questions for logs that are under way, by number.
#[derive(Default)]
pub(super) struct LogQuestions {
    last: u64,
    asked: HashMap<u64, PendingLogQuery>,
}

/// A question under way.
struct PendingLogQuery {
    caller: String,
    answers: LogAnswers,
}

impl LogQuestions {
    /// Adds a question, and returns its number; `None` if there are too many.
    pub(super) fn add(&mut self, caller: &str, answers: LogAnswers) -> Option<u64> {
        let of_caller = self.asked.values().filter(|asked| asked.caller == caller).count();
        if self.asked.len() >= LOG_QUESTIONS_MAX || of_caller >= LOG_QUESTIONS_OF_ONE_CALLER_MAX {
            return None;
        }
        self.last += 1;
        self.asked.insert(self.last, PendingLogQuery { caller: caller.to_owned(), answers });
        Some(self.last)
    }

    /// Removes a question.
    pub(super) fn remove(&mut self, question: u64) {
        self.asked.remove(&question);
    }

    /// Passes an agent's answer on; ignores one to no question.
    pub(super) fn answer(&self, link: LinkId, log: v1::SessionLog) {
        if let Some(asked) = self.asked.get(&log.question) {
            // An agent that answers twice has used its place.
            let _ = asked.answers.try_send((link, log));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(question: u64) -> v1::SessionLog {
        v1::SessionLog { question, ..v1::SessionLog::default() }
    }

    #[test]
    fn answers_reach_their_question_and_no_other() {
        let mut questions = LogQuestions::default();
        let (sender, mut first) = mpsc::channel(1);
        assert_eq!(questions.add("eva", sender), Some(1));
        questions.answer(LinkId(7), log(2));
        questions.answer(LinkId(7), log(1));
        questions.answer(LinkId(8), log(1));
        assert_eq!(first.try_recv().expect("an answer").0, LinkId(7));
        assert!(first.try_recv().is_err(), "there was room for one");
        let (sender, _second) = mpsc::channel(1);
        assert_eq!(questions.add("eva", sender.clone()), Some(2));
        assert_eq!(questions.add("eva", sender.clone()), None, "a caller has a part of the places");
        for other in 2..LOG_QUESTIONS_MAX {
            assert!(questions.add(&other.to_string(), sender.clone()).is_some());
        }
        assert_eq!(questions.add("max", sender.clone()), None);
        questions.remove(1);
        assert!(questions.add("max", sender).is_some());
    }
}
