//! The process's session: created at first use, dropped in forked children, closed at exit.

use crate::api::SYNC;
use crate::compare::Surroundings;
use crate::host_memory::ProgramMemory;
use crate::kernels::Kernels;
use crate::objects::Objects;
use crate::prof::{Construct, Event};
use crate::raw_lock::RawLock;
use crate::trace::Tracer;
use crate::{
    closing, cluster, device_address, heap, images, last_thread, mappings, output, prof, redirect, report, requested,
    settings, source, standard_descriptors, thread, thread_id,
};
use accord_client::pages;
use accord_runtime::Runtime;
use accord_runtime::ports::DeviceClient;
use accord_types::{Compare, Error, Result, SpanSink, threads};
use std::ffi::CStr;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once, OnceLock, mpsc};

/// One process's use of OpenACC.
pub(crate) struct Session {
    runtime: Runtime,
    objects: Objects,
    /// All devices, which exit ends.
    clients: Vec<Arc<dyn DeviceClient>>,
    tracer: Option<Tracer>,
    process: libc::pid_t,
}

/// The session, if it exists. Never freed, because calls may be in progress at exit.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(null_mut());
static CREATING: RawLock = RawLock::new();

impl Session {
    /// Returns the runtime, updated with the loaded objects.
    pub(crate) fn runtime(&self) -> &Runtime {
        self.objects.refresh(&self.runtime);
        &self.runtime
    }
}

/// Returns the session of this process. The first call creates it.
///
/// # Errors
/// Returns an error if settings are invalid, or a coordinator can't be reached.
pub(crate) fn session() -> Result<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    if session.is_null() {
        return create();
    }
    // SAFETY: sessions are never freed.
    Ok(unsafe { &*session })
}

/// Adds the session's context to an error.
pub(crate) fn explain(error: &Error) -> Error {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: sessions are never freed.
    match unsafe { session.as_ref() } {
        Some(session) => session.runtime.explain(error.clone()),
        None => error.clone(),
    }
}

/// Records a range that this thread named, with the thread's device. Does nothing before the first call of OpenACC, and without a trace.
pub(crate) fn record_range(name: &CStr, times: Range<u64>, row: u32) {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: sessions are never freed.
    let Some(session) = (unsafe { session.as_ref() }) else { return };
    let Some(tracer) = &session.tracer else { return };
    let subject = thread::with_local(|local| session.runtime.subject(local, SYNC));
    let index = subject.and_then(|subject| subject.index).unwrap_or(0);
    if let Some(client) = session.clients.get(index) {
        tracer.range(client.info().id, name, times, row);
    }
}

#[cold]
fn create() -> Result<&'static Session> {
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            CREATING.unlock();
        }
    }
    output::install_panic_hook();
    standard_descriptors::occupy();
    if !settings::is_without_devices() {
        report_unknown_settings();
        end_with_threads();
    }
    watch_forks();
    let sees_mappings = watch_mappings();
    CREATING.lock();
    let _release = Release;
    let existing = SESSION.load(Ordering::Acquire);
    if !existing.is_null() {
        // SAFETY: sessions are never freed.
        return Ok(unsafe { &*existing });
    }
    let mut runtime_settings = settings::runtime()?;
    let compare = if settings::is_without_devices() { Compare::Nothing } else { settings::compare()? };
    // Page-locked arrays need notice of other pages at their addresses.
    runtime_settings.pageable |= !sees_mappings;
    let tracer = Tracer::from_settings();
    let kernels = Arc::new(Kernels::default());
    let cluster = cluster::connect(spans_to(tracer.as_ref()), &kernels)?;
    let clients = cluster.clients().to_vec();
    if requested::is_allocated() {
        // Without ACC_DEVICE_TYPE the default type is that of the first allocated device.
        runtime_settings.device_type =
            runtime_settings.device_type.or(clients.first().map(|client| client.device_type()));
    }
    if clients
        .iter()
        .any(|client| accord_backends::capabilities(client.info().kind).is_some_and(|able| able.takes_images))
    {
        kernels.want();
    }
    let names_from = Arc::clone(&kernels);
    let session = Box::leak(Box::new(Session {
        runtime: Runtime::new(cluster, Box::new(ProgramMemory::new(Arc::clone(&kernels))), runtime_settings),
        objects: Objects::new(kernels),
        clients,
        tracer,
        // SAFETY: has no preconditions.
        process: unsafe { libc::getpid() },
    }));
    if let Compare::Regions(tolerance) = compare {
        session.runtime.compare(tolerance, Box::new(Surroundings::new(Arc::clone(&names_from))));
    }
    prof::watch(&session.runtime, &session.clients, Box::new(ProgramMemory::new(names_from)))?;
    SESSION.store(session, Ordering::Release);
    last_thread::session_begins();
    if !settings::is_without_devices() {
        device_address::watch_faults(&session.runtime);
        prof::load_libraries();
        prof::load_program_libraries();
    }
    Ok(session)
}

/// Makes a panic of one of this library's threads end the program with an error from now on, because calls may wait for that
/// thread.
fn end_with_threads() {
    threads::end_on_panic(|panic| report::broken_thread(panic));
}

/// Returns the sink of devices' reports: the trace, the times, both or nowhere.
fn spans_to(tracer: Option<&Tracer>) -> Option<Arc<dyn SpanSink>> {
    let times = if settings::is_without_devices() { None } else { prof::times::sink() };
    match (tracer.map(Tracer::sink), times) {
        (Some(trace), Some(times)) => Some(Arc::new(prof::times::SpanTee(trace, times))),
        (trace, times) => trace.or(times),
    }
}

fn report_unknown_settings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| settings::unknown().iter().for_each(|unknown| output::print(&format!("accord: {unknown}\n"))));
}

/// Caches the kernel's answers about mappings from now on, if every change of mappings is seen. Returns whether it is.
fn watch_mappings() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    *SEEN.get_or_init(|| {
        let seen = mappings::are_in_front() && heap::watch();
        if seen {
            pages::watch();
        }
        seen
    })
}

/// Handles forks: a child has none of its parent's threads and must not use its sockets. It drops the session, and creates
/// its own if it calls OpenACC.
fn watch_forks() {
    unsafe extern "C" fn before() {
        images::lock().lock();
    }
    unsafe extern "C" fn in_parent() {
        images::lock().unlock();
    }
    unsafe extern "C" fn in_child() {
        images::lock().unlock();
        SESSION.store(null_mut(), Ordering::Release);
        closing::forget();
        // SAFETY: this is a fork's child handler.
        unsafe {
            CREATING.reset();
            source::forget_all();
            redirect::forget_after_fork();
        }
        thread_id::forget_all();
        pages::forget_after_fork();
        report::forget_the_end();
        threads::forget_after_fork();
        last_thread::watch_main();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers stay loaded: this library is never unloaded (build.rs).
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

/// Runs after all other exit handlers of this process that could call OpenACC.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    let outcome = std::panic::catch_unwind(|| {
        let session = SESSION.load(Ordering::Acquire);
        // SAFETY: sessions are never freed.
        let Some(session) = (unsafe { session.as_ref() }) else { return };
        // SAFETY: has no preconditions.
        if session.process != unsafe { libc::getpid() } {
            return;
        }
        session.runtime.notify_end(true);
        closing::begin();
        close(session);
        session.runtime.notify_end(false);
        prof::once(Event::RuntimeShutdown, Construct::RuntimeApi);
    });
    // The program's exit status stands; the hook has reported the panic.
    drop(outcome);
}

/// Ends all devices on a thread of its own, so that a device that does not answer can't keep the process from ending.
fn close(session: &'static Session) {
    let (done, closed) = mpsc::channel();
    let closer = threads::spawn("accord-exit", move || {
        session.runtime.end_comparison();
        for client in &session.clients {
            // A device that is already lost has nothing to end.
            let _ = client.shutdown();
        }
        // Devices report their last spans before they end.
        if let Some(tracer) = &session.tracer {
            tracer.write(session.runtime.clients());
        }
        let _ = done.send(());
    });
    if closer.is_ok() {
        let _ = closed.recv_timeout(closing::CLOSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_device::fake::FakeDevice;
    use accord_device::{CopySource, Device, Source};
    use accord_types::{DeviceId, NodeId, QueueId};
    use std::process::Command;

    /// Bytes that are never there.
    struct Panics;

    impl Source for Panics {
        fn fill(&mut self, _piece: &mut [u8]) -> Result<()> {
            panic!("on purpose")
        }
    }

    /// Waits for a stream whose thread has panicked.
    fn wait_in_vain() -> Result<()> {
        let device = FakeDevice::new(DeviceId { node: NodeId(0), ordinal: 0 }, "h1", 1 << 20);
        let (stream, (start, _)) = (device.create_stream(QueueId(3))?, device.addresses());
        device.map(start, 4096)?;
        let copy = device.copy_in(stream, start, 8, CopySource::new(Panics))?;
        device.synchronize(stream, copy)
    }

    #[test]
    fn a_panic_of_a_devices_thread_ends_the_program_with_an_error() {
        const IS_PROGRAM: &str = "ACCORD_TEST_PROGRAM";
        if std::env::var_os(IS_PROGRAM).is_some() {
            output::install_panic_hook();
            end_with_threads();
            panic!("the wait has ended: {:?}", wait_in_vain());
        }
        let mut program = Command::new(std::env::current_exe().unwrap());
        let test = "process::tests::a_panic_of_a_devices_thread_ends_the_program_with_an_error";
        let ended = program.args([test, "--exact", "--nocapture"]).env(IS_PROGRAM, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{printed}");
        let error = "accord: the thread fake-3 has panicked: on purpose [acc_error_implementation_defined]; this is a bug in Accord";
        assert!(printed.contains(error), "{printed}");
        assert!(printed.contains("accord: internal error: the thread fake-3 has panicked at "), "{printed}");
    }
}
