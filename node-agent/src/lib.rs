//! Node agent.
