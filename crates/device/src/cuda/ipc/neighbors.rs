//! The other processes of a session on this machine.

use super::giver::Giver;
use super::place::Place;
use super::taker::{Reached, Taker};
use crate::Device;
use accord_types::DevicePtr;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most processes of each kind.
const PARTIES_MAX: usize = 4096;

/// Processes of this machine that give memory to this one or take of its, each by a number that the caller chooses: that of its
/// node, say.
pub struct Neighbors {
    note: Arc<dyn Fn(&str) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    givers: HashMap<u32, Arc<Giver>>,
    takers: HashMap<u32, Arc<Taker>>,
}

impl Neighbors {
    /// None yet. `note` is told, once for each device and process, why bytes can't go directly.
    pub fn new(note: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { note: Arc::new(note), state: Mutex::default() })
    }

    /// Gives memory to a process, over a socket as [`Giver::start`] takes it.
    pub fn give(&self, party: u32, socket: OwnedFd) {
        let Some(giver) = Giver::start(socket) else { return };
        let mut state = self.lock();
        if state.closed || state.givers.len() == PARTIES_MAX && !state.givers.contains_key(&party) {
            return giver.close();
        }
        if let Some(old) = state.givers.insert(party, giver) {
            old.close();
        }
    }

    /// Takes memory from a process, over a socket as [`Taker::start`] takes it.
    pub fn take(&self, party: u32, socket: OwnedFd) {
        let note = self.note.clone();
        let Some(taker) = Taker::start(socket, move |text| note(text)) else { return };
        let mut state = self.lock();
        if state.closed || state.takers.len() == PARTIES_MAX && !state.takers.contains_key(&party) {
            return taker.close();
        }
        if let Some(old) = state.takers.insert(party, taker) {
            old.close();
        }
    }

    /// Whether memory can be taken from a process.
    pub fn takes_from(&self, party: u32) -> bool {
        self.lock().takers.contains_key(&party)
    }

    /// Where `len` bytes at `start` are, for a process that takes memory, as [`Place::encode`] writes it. Empty if it takes none
    /// or they can't be given away.
    pub fn place(&self, party: u32, device: &dyn Device, start: DevicePtr, len: u64) -> Vec<u8> {
        let giver = self.lock().givers.get(&party).cloned();
        giver.and_then(|giver| giver.place(device.as_cuda()?, start, len)).map_or_else(Vec::new, |place| place.encode())
    }

    /// Makes a place of `len` bytes, as a process has encoded it, reachable for a device. None if that can't be.
    pub fn reach(&self, party: u32, device: &dyn Device, place: &[u8], len: u64) -> Option<Reached> {
        let taker = self.lock().takers.get(&party).cloned()?;
        let place = Place::decode(place).ok().filter(|place| place.bytes() == len)?;
        taker.reach(device.as_cuda()?, &place)
    }

    /// Ends all connections.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (givers, takers) = (std::mem::take(&mut state.givers), std::mem::take(&mut state.takers));
        drop(state);
        givers.values().for_each(|giver| giver.close());
        takers.values().for_each(|taker| taker.close());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
