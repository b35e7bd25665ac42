//! How long texts may be that one process sends to another. Senders cut, receivers refuse.

use crate::SessionId;

/// Bytes of a name: of a node, a program, a user, a device, an MPI job. As long as a file's name may be.
pub const NAME_MAX: usize = 255;
/// Bytes of an address, `host:port`: a host's name may have 253.
pub const ADDRESS_MAX: usize = 320;
/// Bytes of a sentence or two for people: why something failed, what to do about it.
pub const WORDS_MAX: usize = 4 << 10;
/// Bytes of a request for devices.
pub const REQUEST_TEXT_MAX: usize = 32 << 10;
/// Bytes of a path of a file.
pub const PATH_MAX: usize = 4 << 10;

/// Returns the start of a text, at most `max` bytes and no half character.
pub fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// The same in place.
pub fn shorten(text: &mut String, max: usize) {
    text.truncate(cut(text, max).len());
}

/// Returns the reason for the end of a session whose time is over: coordinator and agents tell its program the same.
/// The remedy follows a semicolon.
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
