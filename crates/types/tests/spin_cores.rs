//! Tests `ACCORD_SPIN_CORES` in a process of its own, since the setting holds for a whole process.
#![forbid(unsafe_code)]

use accord_types::settings::SPIN_CORES;
use accord_types::spin_policy::{SpinPolicy, read_cores};
use std::time::Duration;

/// The machine's own number of cores does not matter.
#[test]
fn waits_block_at_once_with_one_core() {
    read_cores(|name| (name == SPIN_CORES.name).then(|| "1".to_owned())).unwrap();
    assert!(SpinPolicy::where_cores_abound().is_none());
    for mut spin in [SpinPolicy::default(), SpinPolicy::long_spin()] {
        (0..50).for_each(|_| spin.waited(Duration::from_micros(1)));
        assert_eq!(spin.limit(), Duration::ZERO);
    }
}
