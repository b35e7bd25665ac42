//! Published results of fragmentation gradient descent: allocated milli in %, after arrivals of 100 % and 130 %.

/// Results by list, from "Beware of Fragmentation" (USENIX ATC 2023), computed with the authors' simulator.
const FGD: [(&str, f64, f64); 10] = [
    ("default", 95.23, 95.39),
    ("gpushare40", 93.96, 94.15),
    ("gpushare80", 89.08, 89.31),
    ("gpushare100", 86.64, 86.90),
    ("cpu050", 95.00, 95.21),
    ("cpu100", 95.21, 95.35),
    ("cpu250", 93.20, 93.41),
    ("gpuspec33", 87.84, 94.55),
    ("multigpu20", 95.53, 95.65),
    ("multigpu50", 97.09, 97.18),
];

/// Returns the published pair for a list, if it is in the trace.
pub(crate) fn fgd(list: &str) -> Option<(f64, f64)> {
    FGD.iter().find(|(name, ..)| *name == list).map(|(_, at_100, at_130)| (*at_100, *at_130))
}
