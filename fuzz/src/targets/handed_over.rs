//! Data that another process of the machine passes: lanes with their descriptors, and memory that both write.

use super::first;
use crate::{Memory, Target};
use accord_fabric::handshake::{HELLO_LEN, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::{Handover, shm_pair};
use accord_types::SessionId;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pwrite;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Lanes that an agent hands over, with the needed descriptors and others.
pub(super) const HANDOVERS: Target = Target {
    name: "handovers",
    run: handovers,
    seeds: handover_seeds,
    words: &["ACCORD\r\n"],
    input_max: 512,
    memory: Memory { fixed: 16 << 10, per_byte: 16 },
    inputs: 5_000,
};

/// Memory of a lane to which the peer writes anything.
pub(super) const RINGS: Target = Target {
    name: "rings",
    run: rings,
    seeds: ring_seeds,
    words: &[],
    input_max: 512,
    memory: Memory { fixed: 128 << 10, per_byte: 64 },
    inputs: 4_000,
};

/// Most descriptors in one message, and one more.
const DESCRIPTORS: usize = 5;

/// The first byte is the number of descriptors of the first message, the second selects them.
fn handovers(mut bytes: &[u8]) {
    let (count, which) = (usize::from(first(&mut bytes)) % (DESCRIPTORS + 1), first(&mut bytes));
    let (near, far) = UnixStream::pair().unwrap();
    let (_client, server) = shm_pair().unwrap();
    let sealed = server.descriptors().handed_over.pop().and_then(|memory| memory.try_clone_to_owned().ok()).unwrap();
    let given: Vec<OwnedFd> = (0..count).map(|at| descriptor(which >> (2 * at).min(6), &sealed)).collect();
    let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !given.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&given)));
    }
    sendmsg(&far, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    drop(far);
    let way = Handover::from_descriptor(near.into());
    let mut taken = 0;
    while let Ok(Some((lane, client))) = way.receive() {
        taken += 1;
        assert!(taken * HELLO_LEN <= bytes.len(), "more lanes than have come");
        // Descriptors of any kind.
        let _ = lane.is_readable();
        assert_eq!(Hello::decode(&client.hello.encode(&[0; 32])), Ok(client.hello));
    }
}

fn descriptor(which: u8, sealed: &OwnedFd) -> OwnedFd {
    match which & 3 {
        0 => UnixStream::pair().unwrap().0.into(),
        1 => sealed.try_clone().unwrap(),
        2 => memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap(),
        _ => File::open("/dev/null").unwrap().into(),
    }
}

fn handover_seeds() -> Vec<Vec<u8>> {
    let hello = Hello::new(Purpose::Bulk, SessionId(5), 0, PeerId::PROGRAM).encode(&[9; 32]);
    vec![
        [&[1, 0], &hello[..]].concat(),
        // Two doorbells and the memory.
        [&[3, 0b01_00_00], &hello[..]].concat(),
        [&[3, 0b10_00_00], &hello[..]].concat(),
        [&[0, 0], &hello[..], &hello].concat(),
    ]
}

/// Distance between the rings in the memory: a header and its bytes, see `shared_memory.rs` of the fabric.
const RING: u64 = 4096 + (2 << 20);
/// Distance between numbers in a ring's header.
const WORD: u64 = 128;

/// Each step begins with a byte that selects the operation and the end.
fn rings(mut bytes: &[u8]) {
    let (client, server) = shm_pair().unwrap();
    let memory = server.descriptors().handed_over.pop().and_then(|memory| memory.try_clone_to_owned().ok()).unwrap();
    let ends = [client, server];
    let mut room = vec![0; 64 << 10];
    while !bytes.is_empty() {
        let step = first(&mut bytes);
        let lane = &ends[usize::from(step >> 7)];
        let len = usize::from(step >> 2 & 0x1f) << 11;
        match step & 3 {
            0 => {
                let at = RING * u64::from(step >> 6 & 1) + WORD * u64::from(step >> 2 & 0xf);
                let value: [u8; 8] = std::array::from_fn(|_| first(&mut bytes));
                assert_eq!(pwrite(&memory, &value, at), Ok(value.len()));
            }
            1 => {
                if let Ok(read) = lane.try_read(&mut room[..len]) {
                    assert!(read <= len);
                }
            }
            2 => {
                if let Ok(written) = lane.try_write(&[IoSlice::new(&room[..len]), IoSlice::new(&[7])]) {
                    assert!(written <= len + 1);
                }
            }
            _ => {
                let _ = lane.is_readable();
            }
        }
    }
}

fn ring_seeds() -> Vec<Vec<u8>> {
    let (write, read, look) = (2 | 4 << 2, 1 | 8 << 2, 3);
    let there = 0x80;
    // Bytes written so far and read so far.
    let say = |word: u8, ring: u8, value: u64| [&[word << 2 | ring << 6][..], &value.to_le_bytes()].concat();
    vec![
        vec![write, there | look, there | read, there | write, read],
        [&[write][..], &say(0, 0, 5), &[there | read]].concat(),
        [&[write][..], &say(1, 0, u64::MAX), &[write]].concat(),
        [&say(4, 1, 1)[..], &[read], &say(5, 0, 1), &[write], &say(2, 0, 1), &[write]].concat(),
    ]
}
