//! Notifications for an observer of devices (OpenACC 3.3, 5.1): the events behind a construct.
//!
//! The shell raises the events of constructs themselves and knows the callbacks; the runtime reports
//! what each construct did. Notices are delivered on the thread that made the call, in the order of
//! their events, while no lock is held.

use accord_types::{DeviceNum, DeviceType, LaunchDims, QueueId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A profiling event. The names are those of the specification's events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProfilingEvent {
    /// `acc_ev_device_init_start`
    DeviceInitStart,
    /// `acc_ev_device_init_end`
    DeviceInitEnd,
    /// `acc_ev_device_shutdown_start`
    DeviceShutdownStart,
    /// `acc_ev_device_shutdown_end`
    DeviceShutdownEnd,
    /// `acc_ev_create`: host data became present.
    Create,
    /// `acc_ev_delete`: it is no longer present.
    Delete,
    /// `acc_ev_alloc`: device memory was allocated.
    Alloc,
    /// `acc_ev_free`: device memory was freed.
    Free,
    /// `acc_ev_enter_data_start` of the data that a compute construct maps.
    EnterDataStart,
    /// `acc_ev_enter_data_end`
    EnterDataEnd,
    /// `acc_ev_exit_data_start` of that data.
    ExitDataStart,
    /// `acc_ev_exit_data_end`
    ExitDataEnd,
    /// `acc_ev_enqueue_launch_start`
    LaunchStart,
    /// `acc_ev_enqueue_launch_end`
    LaunchEnd,
    /// `acc_ev_enqueue_upload_start`
    UploadStart,
    /// `acc_ev_enqueue_upload_end`
    UploadEnd,
    /// `acc_ev_enqueue_download_start`
    DownloadStart,
    /// `acc_ev_enqueue_download_end`
    DownloadEnd,
    /// `acc_ev_wait_start`: the thread waits for a queue.
    WaitStart,
    /// `acc_ev_wait_end`
    WaitEnd,
}

/// One event and its subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The event.
    pub what: ProfilingEvent,
    /// The device's type.
    pub device_type: DeviceType,
    /// Its number among those of the type.
    pub device: DeviceNum,
    /// Its place in [`crate::ports::Cluster::ports`].
    pub index: usize,
    /// The driver's objects behind it, if this process has any.
    pub handles: Option<Handles>,
    /// Whether the runtime did it on its own: no directive, clause or routine requests exactly this.
    pub implicit: bool,
    /// The queue; the synchronous one if there is none.
    pub queue: QueueId,
    /// Host address of the data; 0 if there is none.
    pub host: usize,
    /// Its device address; 0 if there is none.
    pub address: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Address of the region's host version; 0 except for launches.
    pub function: usize,
    /// A launch's; 0 where only the device knows.
    pub dims: LaunchDims,
}

/// A GPU's objects in the CUDA driver, as numbers (OpenACC 3.3, 5.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handles {
    /// The driver's number of the device.
    pub device: i32,
    /// The context.
    pub context: usize,
    /// The stream of the event's queue; 0 if it has none yet.
    pub stream: usize,
}

/// The device that a thread's next construct is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// Its type.
    pub device_type: DeviceType,
    /// Its number among those of the type.
    pub device: DeviceNum,
    /// Its place in [`crate::ports::Cluster::ports`]; none is the host.
    pub index: Option<usize>,
    /// The driver's objects behind it, if it is started and this process has any.
    pub handles: Option<Handles>,
    /// The queue of the construct's async-argument.
    pub queue: QueueId,
}

/// Receives notices.
pub trait Observer: Send + Sync {
    /// Returns the flag that is set while any observer is registered; the only word read while there is none. Called once.
    fn wanted(&self) -> &'static AtomicBool;

    /// Whether that holds for the calling thread. Called only while [`Observer::wanted`] is set.
    fn is_active(&self) -> bool;

    /// Receives a notice of the calling thread. May call the runtime.
    fn notice(&self, notice: &Notice);
}

/// The runtime's observer, if it has one, and the flag that enables it.
#[derive(Default)]
pub(crate) struct Watch(OnceLock<(&'static AtomicBool, Box<dyn Observer>)>);

impl Watch {
    /// Sets the observer; the first one stays.
    pub(crate) fn set(&self, observer: Box<dyn Observer>) {
        let _ = self.0.set((observer.wanted(), observer));
    }

    /// Whether notices are wanted.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.0.get().is_some_and(|(wanted, observer)| wanted.load(Ordering::Relaxed) && observer.is_active())
    }

    /// Notifies the observer.
    pub(crate) fn notify(&self, notice: &Notice) {
        if let Some((_, observer)) = self.0.get() {
            observer.notice(notice);
        }
    }
}
