//! The switch alone: frames in, times, and frames out.
#![forbid(unsafe_code)]

use accord_slow_network::{ADDRESSES_MAX, BYTES_MAX, Counts, FRAMES_MAX, Frame, OFFLOAD_LEN, OutgoingFrame, Switch};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

const PORTS: usize = 4;
const DELAY: Duration = Duration::from_millis(1);
/// The broadcast address.
const ALL: u32 = u32::MAX;

fn address(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    if number == ALL { [0xff; 6] } else { [2, 0, a, b, c, d] }
}

/// Returns a TCP frame with so many bytes of payload and a mark.
fn frame(to: u32, from: u32, payload: usize, mark: u16) -> Frame {
    let mut bytes = vec![0; OFFLOAD_LEN];
    bytes.extend(address(to));
    bytes.extend(address(from));
    bytes.extend([8, 0]);
    let mut ip = [0; 20];
    (ip[0], ip[9]) = (0x45, 6);
    ip[2..4].copy_from_slice(&u16::try_from(40 + payload).unwrap().to_be_bytes());
    ip[4..6].copy_from_slice(&mark.to_be_bytes());
    let mut tcp = [0; 20];
    tcp[12] = 5 << 4;
    bytes.extend(ip);
    bytes.extend(tcp);
    bytes.extend(std::iter::repeat_n(7, payload));
    Frame::new(bytes).unwrap()
}

#[derive(Clone, Debug)]
struct Delivery {
    after_us: u64,
    port: usize,
    from: u32,
    to: u32,
    payload: usize,
}

fn received() -> impl Strategy<Value = Delivery> {
    let to = prop_oneof![8 => 0..6_u32, 1 => Just(ALL)];
    (0..900_u64, 0..PORTS, 0..6_u32, to, 0..200_usize).prop_map(|(after_us, port, from, to, payload)| Delivery {
        after_us,
        port,
        from,
        to,
        payload,
    })
}

/// A switch in its plainest form.
#[derive(Default)]
struct Model {
    seen: HashMap<u32, usize>,
    held: VecDeque<(Duration, OutgoingFrame)>,
    back: u64,
}

impl Model {
    fn take(&mut self, now: Duration, received: &Delivery, frame: Frame) {
        self.seen.insert(received.from, received.port);
        let others = (0..PORTS).filter(|port| *port != received.port);
        let to: Vec<_> = match self.seen.get(&received.to) {
            Some(&at) if received.to != ALL => others.filter(|port| *port == at).collect(),
            _ => others.collect(),
        };
        if to.is_empty() {
            self.back += 1;
        } else {
            self.held.push_back((now + DELAY, OutgoingFrame { to, frame }));
        }
    }
}

proptest! {
    /// Each frame leaves once, by the ports where its receiver may be, in order, and not before it is due.
    #[test]
    fn frames_leave_in_their_turn_when_they_are_due(all in prop::collection::vec(received(), 1..300), lag_us in 0..3_000_u64) {
        let (mut switch, mut model) = (Switch::new(PORTS, DELAY), Model::default());
        let (mut now, mut left) = (Duration::ZERO, 0);
        for (mark, received) in all.iter().enumerate() {
            now += Duration::from_micros(received.after_us);
            let frame = frame(received.to, received.from, received.payload, u16::try_from(mark).unwrap());
            switch.take(now, received.port, frame.clone());
            model.take(now, received, frame);
            prop_assert_eq!(switch.due(), model.held.front().map(|(due, _)| *due));
            // The driver polls the switch from time to time.
            if now < Duration::from_micros(lag_us) {
                continue;
            }
            while let Some(leaving) = switch.leave(now) {
                let (due, wanted) = model.held.pop_front().unwrap();
                prop_assert!(due <= now);
                prop_assert_eq!(leaving, wanted);
                left += 1;
            }
            prop_assert!(model.held.front().is_none_or(|(due, _)| *due > now), "one is due and stays");
            let Counts { taken, left: reported, back, no_space, .. } = switch.counts();
            prop_assert_eq!((reported, back, no_space), (left, model.back, 0));
            prop_assert_eq!(taken, left + back + model.held.len() as u64);
        }
    }
}

#[test]
fn frames_beyond_the_queue_limit_are_dropped_and_counted() {
    // Many short frames, and fewer long ones.
    for (payload, most) in [(0, FRAMES_MAX), (60_000, BYTES_MAX / (OFFLOAD_LEN + 14 + 40 + 60_000))] {
        let mut switch = Switch::new(2, DELAY);
        let more = 10;
        for _ in 0..most + more {
            switch.take(Duration::ZERO, 0, frame(1, 0, payload, 0));
        }
        assert_eq!(switch.counts().no_space, more as u64, "{payload}");
        assert!(switch.leave(DELAY).is_some());
        switch.take(DELAY, 0, frame(1, 0, payload, 0));
        assert_eq!(switch.counts().no_space, more as u64, "there is room again");
        let mut left = 1;
        while switch.leave(DELAY * 2).is_some() {
            left += 1;
        }
        assert_eq!(left, most + 1, "{payload}");
    }
}

#[test]
fn addresses_that_find_no_room_are_not_remembered() {
    let mut switch = Switch::new(3, DELAY);
    let count = u32::try_from(ADDRESSES_MAX).unwrap() + 1;
    for from in 0..count {
        switch.take(Duration::ZERO, 0, frame(ALL, from, 0, 0));
    }
    while switch.leave(DELAY).is_some() {}
    let mut to = |address| {
        switch.take(DELAY, 1, frame(address, count - 1, 0, 0));
        switch.leave(DELAY * 2).unwrap().to
    };
    assert_eq!(to(count - 2), [0]);
    // The destination is unknown, so that the frame goes to all ports.
    assert_eq!(to(count - 1), [0, 2]);
}

/// A switch with two hosts, and the current time.
struct Talk {
    switch: Switch,
    now: Duration,
}

impl Talk {
    fn new() -> Self {
        let mut talk = Self { switch: Switch::new(2, DELAY), now: Duration::ZERO };
        talk.send(0, 0);
        talk.send(1, 0);
        talk.deliver();
        talk
    }

    fn send(&mut self, from: u32, payload: usize) {
        self.switch.take(self.now, from as usize, frame(1 - from, from, payload, 0));
    }

    fn deliver(&mut self) {
        self.now += DELAY;
        while self.switch.leave(self.now).is_some() {}
    }

    fn hops(&self) -> u64 {
        self.switch.counts().hops
    }
}

#[test]
fn a_round_trip_is_two_hops_and_a_message_without_an_answer_is_one() {
    let mut talk = Talk::new();
    assert_eq!(talk.hops(), 0, "acknowledgements are answers to nothing");
    for _ in 0..50 {
        talk.send(0, 10);
        talk.deliver();
        talk.send(1, 10);
        talk.deliver();
    }
    assert_eq!(talk.hops(), 100);
    let mut talk = Talk::new();
    (0..1000).for_each(|_| talk.send(0, 10));
    talk.deliver();
    (0..1000).for_each(|_| talk.send(1, 10));
    talk.deliver();
    assert_eq!(talk.hops(), 2);
}

#[test]
fn frame_in_flight_does_not_count_as_an_answer() {
    let mut talk = Talk::new();
    for _ in 0..50 {
        talk.send(0, 10);
        talk.send(1, 10);
    }
    talk.deliver();
    assert_eq!(talk.hops(), 1);
    talk.send(0, 0);
    talk.deliver();
    talk.send(1, 10);
    assert_eq!(talk.hops(), 2);
}
