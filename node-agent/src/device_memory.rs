//! The memory of the node's CPU devices by session. No driver counts it: each session maps memory in processes of its
//! own.
//!
//! The agent counts, rather than a file or locks that the sessions' processes share. What a process can write, a
//! hostile session's code can write, or hand to a process that outlives the session. So a session holds no more than
//! its quota on its leased devices, and nothing once it has ended.

use accord_device::MemoryAccount;
use accord_fabric::memory_claims::Request;
use accord_types::short_lock::ShortLock;
use accord_types::{DeviceInfo, Error, ErrorCode, MemoryClaim, Result, SessionGrant, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most open accounts: one for each session's executor, and as many for programs that drive the node's devices
/// themselves.
pub(crate) const ACCOUNTS_MAX: usize = 2_048;
/// Most accounts of one session: its executor's, its program's, and one of a lost connection that is being closed.
const ACCOUNTS_OF_SESSION_MAX: usize = 3;

/// Whether the agent counts a device's memory, because no driver does.
pub(crate) fn is_counted(device: &DeviceInfo) -> bool {
    accord_backends::capabilities(device.kind).is_some_and(|able| !able.native_handles)
}

/// The memory of a node's CPU devices.
#[derive(Debug)]
pub(crate) struct DeviceMemory(ShortLock<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    /// Bytes of each device, by its ordinal.
    capacities: BTreeMap<u32, u64>,
    accounts: BTreeMap<u64, Holdings>,
    /// Number of accounts opened so far.
    opened: u64,
}

/// The memory of one process of a session.
#[derive(Debug)]
struct Holdings {
    session: SessionId,
    /// Bytes by device ordinal, for each leased device.
    held: BTreeMap<u32, u64>,
    /// Most bytes of a session on one device; `None` means no limit.
    quota: Option<u64>,
}

impl Ledger {
    fn open(&mut self, grant: &SessionGrant) -> Option<u64> {
        let of_session = self.accounts.values().filter(|account| account.session == grant.session).count();
        if self.accounts.len() >= ACCOUNTS_MAX || of_session >= ACCOUNTS_OF_SESSION_MAX {
            return None;
        }
        let leased = grant.ordinals.iter().filter(|ordinal| self.capacities.contains_key(ordinal));
        let held = leased.map(|ordinal| (*ordinal, 0)).collect();
        let quota = Some(grant.memory_quota).filter(|quota| *quota > 0);
        self.opened += 1;
        self.accounts.insert(self.opened, Holdings { session: grant.session, held, quota });
        Some(self.opened)
    }

    /// Returns the answer to a request, or `None` if the account may not make it.
    fn answer(&mut self, number: u64, request: Request) -> Option<MemoryClaim> {
        let account = self.accounts.get(&number)?;
        let (session, quota) = (account.session, account.quota);
        let (Request::Claim { ordinal, .. } | Request::GiveBack { ordinal, .. } | Request::Ask { ordinal }) = request;
        let own = *account.held.get(&ordinal)?;
        let held_by = |which: &dyn Fn(&u64, &Holdings) -> bool| -> u64 {
            let accounts = self.accounts.iter().filter(|(number, account)| which(number, account));
            accounts.filter_map(|(_, account)| account.held.get(&ordinal)).sum()
        };
        let others = held_by(&|other, _| *other != number);
        let left = match request {
            Request::Ask { .. } => return Some(MemoryClaim::OthersHold(others)),
            Request::GiveBack { bytes, .. } => own.checked_sub(bytes)?,
            Request::Claim { bytes, .. } => {
                let all = others.checked_add(own)?.checked_add(bytes)?;
                if all > *self.capacities.get(&ordinal)? {
                    return Some(MemoryClaim::OthersHold(others));
                }
                let of_session = held_by(&|_, account| account.session == session) + bytes;
                if let Some(quota) = quota.filter(|quota| of_session > *quota) {
                    return Some(MemoryClaim::OverQuota(quota));
                }
                own + bytes
            }
        };
        self.accounts.get_mut(&number)?.held.insert(ordinal, left);
        Some(MemoryClaim::Granted)
    }
}

impl DeviceMemory {
    /// Creates the memory of those devices that no driver counts.
    pub(crate) fn of(devices: &[DeviceInfo]) -> Arc<Self> {
        let counted = devices.iter().filter(|device| is_counted(device));
        let capacities = counted.map(|device| (device.id.ordinal, device.memory)).collect();
        Arc::new(Self(ShortLock::new(Ledger { capacities, ..Ledger::default() })))
    }

    /// Whether a lease names a device whose memory is counted.
    pub(crate) fn counts(&self, grant: &SessionGrant) -> bool {
        let ledger = self.0.lock();
        grant.ordinals.iter().any(|ordinal| ledger.capacities.contains_key(ordinal))
    }

    /// Opens an account of a session.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if there are too many accounts.
    pub(crate) fn open(self: &Arc<Self>, grant: &SessionGrant) -> Result<Account> {
        let number = self.0.lock().open(grant).ok_or_else(|| {
            let cause = format!("session {} has too many connections that count device memory", grant.session);
            Error::new(ErrorCode::DeviceUnavailable, cause)
        })?;
        Ok(Account { memory: self.clone(), number })
    }
}

/// One process's account, closed on drop.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<DeviceMemory>,
    number: u64,
}

impl Account {
    /// Answers a request of the process; `None` if the account may not make it or is closed.
    pub(crate) fn answer(&self, request: Request) -> Option<MemoryClaim> {
        self.memory.0.lock().answer(self.number, request)
    }

    /// Closes the account, which frees all its memory.
    pub(crate) fn end(&self) {
        self.memory.0.lock().accounts.remove(&self.number);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.end();
    }
}

/// Used by executors in the agent's own process.
impl MemoryAccount for Account {
    fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim> {
        let answer = self.answer(Request::Claim { ordinal, bytes });
        answer.ok_or_else(|| Error::new(ErrorCode::DeviceUnavailable, format!("device {ordinal} is not the session's")))
    }

    fn give_back(&self, ordinal: u32, bytes: u64) {
        self.answer(Request::GiveBack { ordinal, bytes });
    }

    fn others(&self, ordinal: u32) -> u64 {
        match self.answer(Request::Ask { ordinal }) {
            Some(MemoryClaim::OthersHold(bytes)) => bytes,
            _ => 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, NodeId, SessionKey};

    fn device(ordinal: u32, kind: DeviceKind) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h1".to_owned(),
            kind,
            name: "cpu".to_owned(),
            vendor: "GNU".to_owned(),
            driver: "0".to_owned(),
            uuid: String::new(),
            memory: 100,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        }
    }

    pub(crate) fn grant(session: u64, ordinals: &[u32], memory_quota: u64) -> SessionGrant {
        SessionGrant {
            session: SessionId(session),
            key: SessionKey([3; SessionKey::LEN]),
            user: "alice".to_owned(),
            ends_in_ms: None,
            program: "app".to_owned(),
            node_name: "h0".to_owned(),
            pid: 1,
            rank: None,
            ordinals: ordinals.to_vec(),
            memory_quota,
            stream_quota: 4,
            plain_tcp: true,
            opened_unix_ms: 0,
            job: None,
        }
    }

    pub(crate) fn memory() -> Arc<DeviceMemory> {
        DeviceMemory::of(&[device(0, DeviceKind::CPU), device(1, DeviceKind::CPU), device(2, DeviceKind::CUDA)])
    }

    fn claim(account: &Account, ordinal: u32, bytes: u64) -> Option<MemoryClaim> {
        account.answer(Request::Claim { ordinal, bytes })
    }

    #[test]
    fn sessions_together_hold_no_more_than_the_device() {
        let memory = memory();
        let open = |session| memory.open(&grant(session, &[0, 1], 0)).expect("there is room");
        let (first, second) = (open(1), open(2));
        assert_eq!(claim(&first, 0, 60), Some(MemoryClaim::Granted));
        assert_eq!(claim(&second, 0, 41), Some(MemoryClaim::OthersHold(60)));
        assert_eq!((first.others(0), second.others(0), second.others(1)), (0, 60, 0));
        assert_eq!(claim(&second, 0, 40), Some(MemoryClaim::Granted));
        assert_eq!(claim(&first, 0, 1), Some(MemoryClaim::OthersHold(40)));
        assert_eq!(claim(&second, 1, 100), Some(MemoryClaim::Granted), "another device");
        first.give_back(0, 50);
        assert_eq!(claim(&second, 0, 50), Some(MemoryClaim::Granted));
        drop(second);
        assert_eq!(claim(&first, 0, 90), Some(MemoryClaim::Granted), "the session's part is free with its end");
        first.end();
        assert_eq!(claim(&first, 0, 1), None, "it has ended");
        assert_eq!(claim(&open(3), 0, 100), Some(MemoryClaim::Granted));
    }

    #[test]
    fn a_session_has_its_leased_devices_only_and_its_quota_in_all_its_processes() {
        let memory = memory();
        let lease = grant(7, &[0, 2, 9], 30);
        assert!(memory.counts(&lease) && !memory.counts(&grant(8, &[2], 0)));
        let (executor, program) = (memory.open(&lease).unwrap(), memory.open(&lease).unwrap());
        for ordinal in [1, 2, 9] {
            assert_eq!(claim(&executor, ordinal, 1), None);
        }
        assert_eq!(claim(&executor, 0, 20), Some(MemoryClaim::Granted));
        assert_eq!(claim(&program, 0, 11), Some(MemoryClaim::OverQuota(30)));
        assert_eq!(claim(&program, 0, 10), Some(MemoryClaim::Granted));
        assert_eq!(program.answer(Request::GiveBack { ordinal: 0, bytes: 11 }), None, "it has not so much");
        assert_eq!(claim(&program, 0, u64::MAX), None, "no device has so much");
        let third = memory.open(&lease).unwrap();
        assert!(memory.open(&lease).is_err(), "one too many");
        drop(third);
        assert!(memory.open(&lease).is_ok());
    }

    #[test]
    fn accounts_are_bounded() {
        let memory = memory();
        let accounts: Vec<_> =
            (0..ACCOUNTS_MAX as u64).map(|session| memory.open(&grant(session, &[0], 0)).unwrap()).collect();
        assert!(memory.open(&grant(u64::MAX, &[0], 0)).is_err());
        drop(accounts);
        assert!(memory.open(&grant(u64::MAX, &[0], 0)).is_ok());
    }
}
