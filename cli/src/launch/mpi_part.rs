//! The MPI that this installation's agents can use, as reported by the agent's program.

use super::parts::find_program;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// The part of Accord that is built for an MPI.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum MpiPart {
    /// The part was loaded.
    Here {
        /// The MPI that it was built for.
        built_for: String,
        /// The installed MPI.
        here: String,
        /// Whether both match.
        fits: bool,
    },
    /// The reason for having none.
    None(String),
}

impl MpiPart {
    /// Queries the agent's program, so that MPI is not loaded into this process.
    pub(crate) fn find() -> Self {
        let asked = find_program("accord-node-agent").map_err(|failure| failure.to_string()).and_then(|agent| {
            let command = Command::new(agent).arg("mpi").stdin(Stdio::null()).stderr(Stdio::null()).output();
            command.map_err(|error| error.to_string())
        });
        match asked {
            Ok(output) => Self::parse(&String::from_utf8_lossy(&output.stdout), output.status.success()),
            Err(why) => Self::None(why),
        }
    }

    fn parse(text: &str, found: bool) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        match lines[..] {
            [built_for, here, fits] if found => {
                Self::Here { built_for: built_for.to_owned(), here: here.to_owned(), fits: fits == "true" }
            }
            _ => Self::None(lines.first().copied().unwrap_or("the agent's program does not answer").to_owned()),
        }
    }

    /// Returns the MPI that the part was built for.
    pub(crate) fn built_for(&self) -> Option<&str> {
        match self {
            Self::Here { built_for, .. } => Some(built_for),
            Self::None(_) => None,
        }
    }

    /// Checks that a launcher, which judges an MPI by its name, starts ranks of this one; otherwise returns the reason.
    pub(crate) fn started_by(&self, launcher: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
        match self {
            Self::Here { built_for, .. } => launcher(built_for),
            Self::None(_) => Ok(()),
        }
    }

    /// Returns the text for display.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Here { built_for, fits: true, .. } => {
                format!("MPI (--fabric mpi): built for {built_for}, which is here")
            }
            Self::Here { built_for, here, .. } => {
                format!("MPI (--fabric mpi): built for {built_for}, but here is {here}: build it again (make mpi)")
            }
            Self::None(why) => format!("no MPI (--fabric mpi): {why}"),
        }
    }

    /// Returns the part as JSON.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Here { built_for, here, fits } => json!({ "built_for": built_for, "here": here, "fits": fits }),
            Self::None(why) => json!({ "missing": why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_answer_becomes_a_line() {
        let text = |answer: &str, found| MpiPart::parse(answer, found).text();
        assert_eq!(
            text("Open MPI 4.1.4\nOpen MPI v4.1.4, package\ntrue\n", true),
            "MPI (--fabric mpi): built for Open MPI 4.1.4, which is here"
        );
        let other = text("MPICH 4.0.2\nMPICH Version: 5.0.2\nfalse\n", true);
        assert!(other.contains("built for MPICH 4.0.2, but here is MPICH Version: 5.0.2: build it again"), "{other}");
        assert_eq!(text("no libaccord_mpi.so\n", false), "no MPI (--fabric mpi): no libaccord_mpi.so");
        assert!(text("", true).contains("does not answer"));
    }
}
