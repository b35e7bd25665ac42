//! How a session ends, whether its executor is a process of its own or a part of the agent's.

mod support;

use accord_executor::Limits;
use accord_fabric::frame::Command;
use accord_types::ErrorCode;
use support::{PANICS, Program};

fn limits() -> Limits {
    Limits { ordinals: vec![0, PANICS], memory: 0, streams: 0 }
}

#[test]
fn a_panic_is_told_to_the_program_and_ends_the_session() {
    for make in [Program::new, Program::here] {
        let mut program = make(limits());
        program.start().unwrap();
        program.ask(|ticket| Command::Open { device: 0, ticket }).unwrap();
        let error = program.ask(|ticket| Command::Open { device: PANICS, ticket }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ImplementationDefined);
        assert!(error.cause().contains("panicked") && error.cause().contains("this device panics"), "{error}");
        program.assert_ended();
    }
}

#[test]
fn an_agent_ends_a_session_that_it_hosts_itself() {
    let mut program = Program::here(limits());
    program.start().unwrap();
    program.ask(|ticket| Command::Open { device: 0, ticket }).unwrap();
    let device = program.devices().remove(0);
    program.end();
    program.assert_ended();
    assert!(device.has_ended());
}
