//! Coordinator.
fn main() {}
