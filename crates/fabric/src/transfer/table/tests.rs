use super::source::HANDLES_BYTES_MAX;
use super::*;
use crate::transfer::control::ReceiveAnnouncement;
use accord_types::ErrorCode;
use std::num::NonZeroU16;

pub(crate) mod simulation;

const PEER: PeerId = PeerId::from_raw(1);
const OTHER: PeerId = PeerId::from_raw(2);
const T: TransferId = TransferId(1);

fn effects(table: &mut TransferTable<u32>) -> Vec<String> {
    table.effects().map(|effect| format!("{effect:?}")).collect()
}

fn gone() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "gone")
}

fn ready(transfer: TransferId) -> ControlMessage {
    ControlMessage::Ready(transfer, Vec::new())
}

/// Returns a table that expects a transfer whose bytes may be sent.
fn target() -> TransferTable<u32> {
    let mut target = TransferTable::new(None);
    target.arrived(PEER);
    target.expect(T, PEER, Ok(7)).unwrap();
    target.due(T, Ok(()));
    target.effects().for_each(drop);
    target
}

#[test]
fn handles_are_kept_for_their_streams_up_to_a_bound() {
    let mut table = TransferTable::<u32>::new(None);
    let large = vec![0; HANDLES_BYTES_MAX / 2 + 1];
    for transfer in [TransferId(2), TransferId(3)] {
        table.push(transfer, PEER, 0).unwrap();
        table.on_control(PEER, ControlMessage::Ready(transfer, large.clone())).unwrap();
    }
    assert_eq!(table.handles_bytes, large.len());
    table.give_up(TransferId(2), true);
    assert_eq!(table.handles_bytes, 0);
    assert_eq!(table.start(TransferId(3)), Some(Offer::Lane));
    // A handle that is taken, or whose push has failed, does not count.
    for (transfer, takes) in [(TransferId(4), true), (TransferId(5), false)] {
        table.push(transfer, PEER, 0).unwrap();
        table.on_control(PEER, ControlMessage::Ready(transfer, large.clone())).unwrap();
        if takes {
            assert_eq!(table.start(transfer), Some(Offer::Memory(large.clone())));
        } else {
            table.push_lost(PEER, &gone());
        }
        assert_eq!(table.handles_bytes, 0);
    }
}

#[test]
fn a_push_starts_once_with_the_targets_offer() {
    let mut table = TransferTable::<u32>::new(None);
    table.push(T, PEER, 0).unwrap();
    assert_eq!((table.step(T), table.start(T)), (PushStep::Wait, None));
    let space = ReceiveAnnouncement { number: NonZeroU16::MIN, overlaps: false };
    table.on_control(PEER, ControlMessage::Room(T, space)).unwrap();
    assert_eq!(table.offer(T), Some(&Offer::Receive(space)));
    assert_eq!((table.start(T), table.start(T), table.offer(T)), (Some(Offer::Receive(space)), None, None));
    assert_eq!(table.step(T), PushStep::Send);
    table.has_landed(T);
    assert_eq!((table.push_done(T), table.pushes()), (Ok(()), 0));
}

#[test]
fn a_push_to_a_lost_peer_fails_at_once() {
    let mut table = TransferTable::<u32>::new(None);
    table.push_lost(PEER, &gone());
    table.push(T, PEER, 0).unwrap();
    assert_eq!(table.step(T), PushStep::End(Err(gone())));
    assert!(table.push_done(T).is_err());
    assert_eq!(table.pushes(), 0);
}

#[test]
fn a_late_message_of_a_lost_peer_leaves_no_state() {
    let mut table = TransferTable::<u32>::new(None);
    table.push(T, PEER, 0).unwrap();
    table.push_lost(PEER, &gone());
    assert!(table.push_done(T).is_err());
    for late in [ready(T), ControlMessage::Refused(T, gone()), ControlMessage::Landed(T)] {
        table.on_control(PEER, late).unwrap();
    }
    assert_eq!(table.pushes(), 0);
    // The next lane is another one.
    table.on_control(PEER.on_lane(1), ready(T)).unwrap();
    assert_eq!(table.pushes(), 1);
}

#[test]
fn copies_that_are_over_are_reported_in_steps() {
    let mut table = TransferTable::<u32>::new(Some(2));
    table.arrived(PEER);
    for transfer in 1..4 {
        table.expect(TransferId(transfer), PEER, Ok(0)).unwrap();
        table.due(TransferId(transfer), Ok(()));
    }
    effects(&mut table);
    table.begin(TransferId(1), PEER, false).unwrap();
    table.ended(TransferId(1), PEER, Ok(()));
    assert_eq!(effects(&mut table).len(), 1);
    table.begin(TransferId(2), PEER, true).unwrap();
    assert_eq!(effects(&mut table), ["Over { pushes: 0, expects: 2 }"]);
    // A push given up before its target is ready is tracked until then.
    table.push(TransferId(8), PEER, 0).unwrap();
    table.give_up(TransferId(8), false);
    table.push(TransferId(9), PEER, 0).unwrap();
    table.push_lost(PEER, &gone());
    effects(&mut table);
    assert!(table.push_done(TransferId(9)).is_err());
    assert_eq!(effects(&mut table), ["Over { pushes: 2, expects: 0 }"]);
}

#[test]
fn a_push_given_up_midway_leaves_no_state_at_either_end() {
    let (mut source, mut target) = (TransferTable::<u32>::new(None), target());
    source.push(T, PEER, 0).unwrap();
    source.on_control(PEER, ready(T)).unwrap();
    source.start(T).unwrap();
    target.begin(T, PEER, false).unwrap();
    source.give_up(T, true);
    let cut_short = Error::new(ErrorCode::DeviceUnavailable, "the sender failed");
    target.bytes_lost(T, cut_short.clone());
    // The device has ended its part without an error.
    target.ended(T, PEER, Ok(()));
    assert!(effects(&mut target)[0].contains("Failed"));
    source.on_control(PEER, ControlMessage::Failed(T, cut_short)).unwrap();
    assert_eq!((source.pushes(), target.expects()), (0, 0));
}

#[test]
fn a_missing_destination_is_refused_once_the_source_connects() {
    let mut table = TransferTable::<u32>::new(None);
    let full = Error::new(ErrorCode::OutOfMemory, "full");
    table.expect(T, PEER, Err(full)).unwrap();
    assert_eq!((effects(&mut table).len(), table.expects()), (0, 1));
    table.arrived(PEER);
    assert!(effects(&mut table)[0].contains("Refused"));
    assert_eq!(table.expects(), 0);
}

#[test]
fn a_lost_peer_ends_its_transfers_only() {
    let mut source = TransferTable::<u32>::new(None);
    for (id, to) in [(1, PEER), (2, OTHER), (3, PEER)] {
        source.push(TransferId(id), to, 0).unwrap();
    }
    source.on_control(PEER, ready(T)).unwrap();
    source.push_lost(PEER, &gone());
    let steps = [1, 2, 3].map(|id| source.step(TransferId(id)));
    assert_eq!(steps, [PushStep::End(Err(gone())), PushStep::Wait, PushStep::End(Err(gone()))]);

    let mut target = TransferTable::<u32>::new(None);
    target.arrived(PEER);
    for (id, from) in [(1, PEER), (2, OTHER), (3, PEER), (4, PEER)] {
        target.expect(TransferId(id.into()), from, Ok(id)).unwrap();
    }
    [3, 4].into_iter().for_each(|id| target.due(TransferId(id), Ok(())));
    assert_eq!(target.keep(TransferId(4), 44), None);
    target.begin(TransferId(3), PEER, false).unwrap();
    effects(&mut target);
    target.peer_lost(PEER);
    let gone = "Gone(PeerId(1), [(TransferId(4), Some(44))])";
    let mut ended = effects(&mut target);
    ended.sort();
    assert_eq!(ended, ["Drop(1)", gone]);
    // The device still ends the copy that has begun, and the source gets no message about that.
    target.ended(TransferId(3), PEER, Ok(()));
    assert_eq!((effects(&mut target).len(), target.expects()), (0, 1));
}

#[test]
fn a_target_refuses_unrequested_bytes() {
    let mut table = TransferTable::<u32>::new(None);
    table.expect(T, PEER, Ok(0)).unwrap();
    assert!(table.begin(T, PEER, false).is_err(), "before ready");
    assert_eq!(table.keep(T, 5), Some(5), "nothing is posted before that");
    table.arrived(PEER);
    table.due(T, Ok(()));
    assert!(table.begin(T, OTHER, false).is_err(), "from another peer");
    assert!(table.begin(T, PEER, false).is_ok());
    assert!(table.begin(T, PEER, false).is_err(), "twice");
    assert_eq!(table.keep(T, 5), Some(5), "nor once bytes arrive");
    assert!(table.expect(T, PEER, Ok(0)).is_err(), "announced twice");
    assert!(table.push(T, PEER, 0).is_ok(), "a push from here is another one");
}

#[test]
fn a_source_refuses_answers_in_the_wrong_order() {
    let answer = |messages: &[ControlMessage]| {
        let mut table = TransferTable::<u32>::new(None);
        table.push(T, PEER, 0).unwrap();
        messages.iter().try_for_each(|message| table.on_control(PEER, message.clone()))
    };
    let [landed, refused, failed] =
        [ControlMessage::Landed(T), ControlMessage::Refused(T, gone()), ControlMessage::Failed(T, gone())];
    let wrong = [
        vec![landed.clone()],
        vec![failed.clone()],
        vec![ready(T), ready(T)],
        vec![ready(T), refused.clone()],
        vec![ready(T), landed.clone(), landed.clone()],
        vec![ready(T), landed.clone(), ready(T)],
        vec![ControlMessage::Ask(Vec::new())],
    ];
    for messages in wrong {
        assert!(answer(&messages).is_err(), "{messages:?}");
    }
    for messages in [vec![ready(T), landed], vec![ready(T), failed], vec![refused]] {
        assert_eq!(answer(&messages), Ok(()), "{messages:?}");
    }
}

#[test]
fn a_closed_table_gives_all_values_back() {
    let mut table = target();
    table.keep(T, 9);
    table.expect(TransferId(2), OTHER, Ok(2)).unwrap();
    table.push(TransferId(3), OTHER, 3).unwrap();
    table.close(&gone());
    let mut ended = effects(&mut table);
    ended.sort();
    assert_eq!(ended, ["Drop(2)", "Drop(9)", "Wake(TransferId(3), Some(3))"]);
    assert_eq!(table.step(TransferId(3)), PushStep::End(Err(gone())));
    assert!(table.expect(TransferId(4), PEER, Ok(4)).is_err() && table.push(TransferId(5), PEER, 5).is_err());
    assert_eq!(effects(&mut table), ["Drop(4)"]);
}
