//! The choice of the fabric of a run over several nodes, with the reason. Pure: all facts are arguments.

use super::mpi_part::MpiPart;
use crate::args::Fabric;
use std::fmt;

/// The chosen fabric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Whether the fabric is MPI rather than TCP.
    pub(super) mpi: bool,
    /// The reason, for display.
    pub(super) why: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.mpi { "mpi" } else { "tcp" };
        write!(f, "{name}: {}", self.why)
    }
}

/// The facts about a run.
pub(super) struct RunFacts<'a> {
    pub(super) nodes: u32,
    /// The MPI part of the agents' installation.
    pub(super) part: &'a MpiPart,
    /// Whether the launcher can start ranks of that MPI; otherwise the reason.
    pub(super) launcher: Result<(), String>,
    /// Whether the nodes are hosts of one machine.
    pub(super) is_local: bool,
}

/// Chooses the fabric.
///
/// # Errors
/// Returns the reason why the requested fabric is impossible.
pub(super) fn choose(asked: Option<Fabric>, known: &RunFacts<'_>) -> Result<Choice, String> {
    let tcp = |why: String| Ok(Choice { mpi: false, why });
    let missing = missing(known);
    match (asked.unwrap_or(Fabric::Auto), missing) {
        (Fabric::Tcp, _) => tcp("--fabric tcp".to_owned()),
        (Fabric::Mpi, Some(why)) => Err(format!("--fabric mpi can't be: {why}; use --fabric tcp")),
        (Fabric::Mpi, None) => Ok(Choice { mpi: true, why: "--fabric mpi".to_owned() }),
        (Fabric::Auto, _) if known.is_local => {
            tcp("the hosts are of one machine, whose processes share memory; --fabric mpi tries it".to_owned())
        }
        (Fabric::Auto, _) if known.nodes < 2 => tcp("there is one node".to_owned()),
        (Fabric::Auto, Some(why)) => tcp(why),
        (Fabric::Auto, None) => {
            let MpiPart::Here { here, .. } = known.part else { return tcp(String::new()) };
            Ok(Choice { mpi: true, why: format!("the agents can use {here}, and there are {} nodes", known.nodes) })
        }
    }
}

/// Returns why MPI can't be used, or `None` if it can.
fn missing(known: &RunFacts<'_>) -> Option<String> {
    match known.part {
        MpiPart::None(why) => Some(format!("the agents have no MPI ({why}); make mpi")),
        MpiPart::Here { fits: false, built_for, here } => {
            Some(format!("the agents' MPI part was built for {built_for}, and here is {here}; make mpi"))
        }
        MpiPart::Here { .. } => known.launcher.as_ref().err().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(fits: bool) -> MpiPart {
        MpiPart::Here { built_for: "Open MPI 4.1.4".to_owned(), here: "Open MPI v4.1.4".to_owned(), fits }
    }

    fn decide(asked: Option<Fabric>, nodes: u32, part: &MpiPart, launcher: Result<(), &str>) -> Result<Choice, String> {
        let launcher = launcher.map_err(str::to_owned);
        choose(asked, &RunFacts { nodes, part, launcher, is_local: false })
    }

    #[test]
    fn auto_takes_mpi_where_all_of_it_is_there() {
        let auto = |nodes, part: &MpiPart, launcher| decide(None, nodes, part, launcher).unwrap();
        assert!(auto(2, &here(true), Ok(())).mpi);
        let no = |choice: Choice, word: &str| assert!(!choice.mpi && choice.why.contains(word), "{choice:?}");
        no(auto(1, &here(true), Ok(())), "one node");
        no(auto(2, &here(false), Ok(())), "was built for Open MPI 4.1.4");
        no(auto(2, &MpiPart::None("no libaccord_mpi.so".to_owned()), Ok(())), "no libaccord_mpi.so");
        no(auto(2, &here(true), Err("no pmix")), "no pmix");
        let known = RunFacts { nodes: 3, part: &here(true), launcher: Ok(()), is_local: true };
        no(choose(None, &known).unwrap(), "one machine");
        assert!(choose(Some(Fabric::Mpi), &known).unwrap().mpi);
    }

    #[test]
    fn requested_fabric_is_used_or_refused() {
        let none = MpiPart::None("no libaccord_mpi.so".to_owned());
        assert!(!decide(Some(Fabric::Tcp), 2, &here(true), Ok(())).unwrap().mpi);
        assert!(decide(Some(Fabric::Mpi), 1, &here(true), Ok(())).unwrap().mpi);
        assert!(decide(Some(Fabric::Mpi), 2, &none, Ok(())).unwrap_err().contains("--fabric mpi can't be"));
        assert!(decide(Some(Fabric::Mpi), 2, &here(true), Err("no pmix")).unwrap_err().contains("no pmix"));
    }
}
