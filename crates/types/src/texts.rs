//! Limits of the texts that processes send to each other. Senders shorten, receivers refuse.

use crate::SessionId;

/// Most bytes of a name (of a node, program, user, device or MPI job), as of a file name.
pub const NAME_MAX: usize = 255;
/// Most bytes of an address, `host:port`; a host's name may have 253.
pub const ADDRESS_MAX: usize = 320;
/// Most bytes of a sentence or two for display, such as a cause or a remedy.
pub const WORDS_MAX: usize = 4 << 10;
/// Most bytes of a request for devices.
pub const REQUEST_TEXT_MAX: usize = 32 << 10;
/// Most bytes of a file's path.
pub const PATH_MAX: usize = 4 << 10;

/// Returns the longest start of a text with at most `max` bytes, without splitting a character.
pub fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Shortens a text in place to what [`cut`] returns.
pub fn shorten(text: &mut String, max: usize) {
    text.truncate(cut(text, max).len());
}

/// Returns the reason for the end of a session at its time limit, the same from coordinator and agents. The remedy
/// follows a semicolon.
pub fn time_is_over(session: SessionId) -> String {
    format!(
        "session {session} has lasted as long as the cluster allows (--session-time); divide the work into shorter runs, or ask for more time"
    )
}

/// Returns the reason for the end of the sessions of a job that has reached its time limit, in the form of [`time_is_over`].
pub fn job_time_is_over(job: u64) -> String {
    format!("job {job} has ended: its time limit; ask for a longer limit, or divide the work")
}

/// Returns the reason for the end of a session that an administrator has closed, in the form of [`time_is_over`].
pub fn closed_by_administrator(session: SessionId) -> String {
    format!("an administrator has closed session {session}; ask them why, or start the program again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_whole_character() {
        assert_eq!((cut("abc", 2), cut("abc", 3), cut("abc", 9), cut("", 0)), ("ab", "abc", "abc", ""));
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("é", 1)), ("a", "aé", ""));
        let mut text = "aéb".to_owned();
        shorten(&mut text, 2);
        assert_eq!(text, "a");
    }
}
