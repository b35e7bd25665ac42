use super::*;

/// Many ranks that send to each other at once.
struct Job {
    ranks: usize,
    receivers: Vec<Credits<usize>>,
    /// Indexed by sender and receiver.
    senders: Vec<Outflow>,
    to_send: Vec<u32>,
    /// Numbers of messages received and not read.
    unread: Vec<u32>,
    held: Vec<u64>,
}

const BYTES: usize = 128 << 10;

impl Job {
    fn new(ranks: usize, messages: u32) -> Self {
        let mut receivers: Vec<_> = (0..ranks).map(|_| Credits::new()).collect();
        receivers.iter_mut().for_each(|receiver| (0..ranks).for_each(|from| receiver.add(from)));
        Self {
            ranks,
            receivers,
            senders: (0..ranks * ranks).map(|_| Outflow::default()).collect(),
            to_send: vec![messages; ranks * ranks],
            unread: vec![0; ranks * ranks],
            held: vec![0; ranks],
        }
    }

    /// Sends one message on a lane, or requests credit for it.
    fn send(&mut self, from: usize, to: usize) -> bool {
        let lane = from * self.ranks + to;
        let left = self.to_send[lane];
        if left == 0 {
            return false;
        }
        if self.senders[lane].asks(u64::from(left) * cost(BYTES)) {
            self.receivers[to].ask(from);
            self.notify(to);
        }
        if !self.senders[lane].may_send(cost(BYTES)) {
            return false;
        }
        self.senders[lane].send(cost(BYTES));
        self.receivers[to].receive(from, cost(BYTES)).unwrap();
        self.to_send[lane] -= 1;
        self.unread[lane] += 1;
        self.held[to] += BYTES as u64;
        true
    }

    fn read(&mut self, from: usize, to: usize) -> bool {
        let lane = from * self.ranks + to;
        if self.unread[lane] == 0 {
            return false;
        }
        self.unread[lane] -= 1;
        self.held[to] -= BYTES as u64;
        self.receivers[to].take(from, cost(BYTES));
        self.notify(to);
        true
    }

    fn notify(&mut self, to: usize) {
        while let Some((from, total)) = self.receivers[to].next_grant() {
            self.senders[from * self.ranks + to].grant(total);
        }
    }

    fn check(&self) {
        for (receiver, held) in self.receivers.iter().zip(&self.held) {
            assert!(receiver.exposed() <= POOL);
            assert!(*held <= POOL + self.ranks as u64 * BASE, "{held} bytes wait at one rank");
        }
    }
}

#[test]
fn all_to_all_between_256_ranks_completes_in_bounded_memory() {
    let mut job = Job::new(256, 12);
    let (mut rounds, mut moved) = (0, true);
    while moved {
        moved = false;
        for from in 0..job.ranks {
            for to in 0..job.ranks {
                while job.send(from, to) {
                    moved = true;
                }
            }
        }
        job.check();
        for to in 0..job.ranks {
            for from in 0..job.ranks {
                moved |= job.read(from, to);
            }
        }
        rounds += 1;
        assert!(rounds < 1000, "it does not end");
    }
    assert!(job.to_send.iter().chain(&job.unread).all(|left| *left == 0), "something is stuck");
    job.check();
}

#[test]
fn unread_lanes_do_not_starve_others() {
    // Lanes without a reader take the whole pool. Another lane continues.
    let mut job = Job::new(24, 100);
    for from in 1..job.ranks {
        while job.send(from, 0) {}
    }
    assert!(job.receivers[0].exposed() + QUANTUM > POOL);
    let mut sent = 0;
    while job.to_send[0] > 0 {
        assert!(job.send(0, 0), "after {sent} messages");
        job.read(0, 0);
        sent += 1;
    }
    job.check();
}

#[test]
fn unused_credit_returns_to_the_pool() {
    let mut job = Job::new(24, 16);
    for from in 1..job.ranks {
        // The lane sends less than its credit.
        job.to_send[from * job.ranks] = 64;
        while job.senders[from * job.ranks].granted < 4 * QUANTUM && job.send(from, 0) {}
        job.to_send[from * job.ranks] = 0;
        while job.read(from, 0) {}
    }
    assert!(job.receivers[0].exposed() + QUANTUM > POOL, "{}", job.receivers[0].exposed());
    for _ in 0..2 {
        for from in 1..job.ranks {
            if let Some(known) = job.senders[from * job.ranks].give_back() {
                job.receivers[0].take_back(from, known).unwrap();
                job.notify(0);
            }
        }
    }
    job.check();
    assert_eq!(job.receivers[0].exposed(), 0);
    // The lanes can send again.
    for from in 1..job.ranks {
        job.to_send[from * job.ranks] = 64;
        while job.send(from, 0) {
            job.read(from, 0);
        }
        assert_eq!(job.to_send[from * job.ranks], 0);
    }
    job.check();
}

#[test]
fn a_grant_in_flight_survives_returned_credit() {
    let mut credits = Credits::new();
    credits.add(0);
    let mut sender = Outflow::default();
    assert!(sender.asks(QUANTUM));
    credits.ask(0);
    let (_, first) = credits.next_grant().unwrap();
    sender.grant(first);
    assert!(sender.asks(2 * QUANTUM));
    credits.ask(0);
    let (_, second) = credits.next_grant().unwrap();
    // The second grant and the returned credit cross.
    let known = sender.give_back().unwrap();
    assert_eq!(known, first);
    credits.take_back(0, known).unwrap();
    sender.grant(second);
    assert!(sender.may_send(second));
    credits.receive(0, second).unwrap();
    assert!(credits.receive(0, 1).is_err(), "more than was granted");
    assert!(credits.take_back(0, second + 1).is_err(), "more than there was");
}
