//! Starts other programs with a time limit.

use std::io::{Read as _, pipe};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The answer of a program.
pub(super) enum ToolAnswer {
    /// Its output, of both streams.
    Lines(String),
    /// Its output before it failed.
    Refused(String),
    /// The program is missing.
    Nothing,
    /// The time limit passed. The program was sent a signal, and is not waited for: inside a hanging driver it stays.
    Late,
}

/// Runs a program and returns its output.
pub(super) fn answer(mut command: Command, limit: Duration) -> ToolAnswer {
    let Ok((mut output, input)) = pipe() else { return ToolAnswer::Refused("no pipe for its output".to_owned()) };
    let Ok(errors) = input.try_clone() else { return ToolAnswer::Refused("no pipe for its errors".to_owned()) };
    let started = command.stdin(Stdio::null()).stdout(input).stderr(errors).spawn();
    // The command holds the pipe's input.
    drop(command);
    let Ok(mut tool) = started else { return ToolAnswer::Nothing };
    let (printed, receiver) = mpsc::channel();
    let reads = accord_types::threads::spawn("accord-doctor", move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned());
        // Fails if the time limit has passed.
        let _ = printed.send(read);
    });
    if let Err(error) = reads {
        let _ = tool.kill();
        return ToolAnswer::Refused(error.to_string());
    }
    let Ok(text) = receiver.recv_timeout(limit) else {
        let _ = tool.kill();
        return ToolAnswer::Late;
    };
    match (text, tool.wait()) {
        (Ok(text), Ok(status)) if status.success() => ToolAnswer::Lines(text),
        (Ok(text), Ok(status)) if text.is_empty() => ToolAnswer::Refused(status.to_string()),
        (Ok(text), _) => ToolAnswer::Refused(text),
        (Err(error), _) => ToolAnswer::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_hangs_or_is_missing_is_reported() {
        let shell = |script: &str, limit| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            answer(shell, limit)
        };
        let limit = Duration::from_secs(60);
        assert!(matches!(shell("echo a line", limit), ToolAnswer::Lines(text) if text == "a line\n"));
        assert!(matches!(shell("echo no field >&2; exit 2", limit), ToolAnswer::Refused(text) if text == "no field\n"));
        assert!(matches!(shell("exit 3", limit), ToolAnswer::Refused(text) if text.contains('3')));
        assert!(matches!(shell("exec sleep 60", Duration::from_millis(50)), ToolAnswer::Late));
        assert!(matches!(answer(Command::new("/nowhere/nvidia-smi"), limit), ToolAnswer::Nothing));
    }
}
