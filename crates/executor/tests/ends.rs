//! The end of a session whose executor is a process of its own or a part of the agent's.

mod support;

use accord_executor::Limits;
use accord_fabric::frame::{Command, EXCHANGE_STEP, EXCHANGE_WINDOW, Event, PAYLOAD_MAX};
use accord_fabric::handshake::Purpose;
use accord_fabric::peer::PeerId;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{ControlSender, TRANSFERS_MAX};
use accord_types::{Error, ErrorCode, NodeId};
use std::sync::Arc;
use support::{PANICS, Program};

fn limits() -> Limits {
    Limits { ordinals: vec![0, PANICS], memory: 0, streams: 0 }
}

#[test]
fn a_panic_is_told_to_the_program_and_ends_the_session() {
    for make in [Program::new, Program::here] {
        let mut program = make(limits());
        program.start().unwrap();
        program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
        let error = program.ask(|ticket| Command::Open { device: PANICS, ticket, start: 0, len: 0 }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ImplementationDefined);
        assert!(error.cause().contains("panicked") && error.cause().contains("this device panics"), "{error}");
        program.assert_ended();
    }
}

#[test]
fn an_agent_ends_a_session_that_it_hosts_itself() {
    let mut program = Program::here(limits());
    program.start().unwrap();
    program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    let device = program.devices().remove(0);
    program.end();
    program.assert_ended();
    assert!(device.has_ended());
}

/// The agent's death ends the session. It also fails the copies under way, but the program must not take that for the cause: the program knows from the
/// coordinator which node is lost.
#[test]
fn copies_that_the_sessions_end_fails_are_not_reported() {
    const LEN: u64 = 4 * PAYLOAD_MAX as u64;
    // Without a lane for its bytes, each copy waits until the session ends.
    for _ in 0..20 {
        let (mut program, start) = Program::open(limits(), 0);
        program.ask(|ticket| Command::Map { device: 0, ticket, start, len: LEN }).unwrap();
        for queue in 1..=4 {
            program.send(&Command::CopyOut { device: 0, queue, src: start, len: LEN, transfer: queue.into() }, &[]);
        }
        program.ask(|ticket| Command::Clock { ticket }).unwrap();
        program.end();
        while let Some((event, text)) = program.event() {
            assert!(!matches!(event, Event::Failed { .. }), "{event:?}: {}", String::from_utf8_lossy(&text));
        }
    }
}

fn expect(program: &Program, transfer: u64, dst: u64, from: PeerId) {
    program.send(&Command::Expect { device: 0, dst, len: 8, transfer, from, seq: 0 }, &[]);
}

/// An executor that never connected is lost: its expected pushes occupy no space of others.
#[test]
fn copies_from_an_executor_that_is_lost_are_over() {
    let (mut program, start) = Program::open(limits(), 0);
    let from = PeerId::executor(NodeId(9), 1).unwrap();
    for transfer in 0..EXCHANGE_WINDOW {
        expect(&program, transfer.into(), start, from);
    }
    program.ask(|ticket| Command::Clock { ticket }).unwrap();
    let control = ControlSender::new("", Arc::<LinkStats>::default());
    control.connect(program.lane(Purpose::Control));
    control.lost(from, &Error::new(ErrorCode::DeviceUnavailable, "node 9 is silent"));
    let mut over = 0;
    while over + EXCHANGE_STEP <= EXCHANGE_WINDOW {
        if let Event::Exchanged { pushes, expects } = program.event().expect("the session goes on").0 {
            assert_eq!(pushes, 0);
            over += expects;
        }
    }
    assert!(over <= EXCHANGE_WINDOW);
}

#[test]
fn a_program_that_has_more_copies_expected_than_there_may_be_loses_its_session() {
    let (mut program, start) = Program::open(limits(), 0);
    let from = PeerId::executor(NodeId(9), 1).unwrap();
    for transfer in 0..=TRANSFERS_MAX as u64 {
        expect(&program, transfer, start, from);
    }
    assert!(program.failure(u32::MAX).cause().contains("more than 65536 copies"));
    program.assert_ended();
}
