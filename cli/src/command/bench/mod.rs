//! `accord bench`: times of copies and launches on this machine, through libacc.so as in any OpenACC program.
//!
//! The command itself is that program. If libacc.so is not preloaded, as by `accord run`, the command restarts with it.

mod figure;
mod routes;
mod sampling;
mod show;

use crate::args::{BenchArgs, BenchSubject};
use crate::failure::{Failure, Result};
use crate::launch::{find_libacc, preload_with};
use crate::output::print;
use crate::viewpoint;
use accord_openacc::{OpenAcc, Present};
use accord_types::{DeviceType, settings};
use figure::{CopyEnds, Figure};
use routes::Routes;
use sampling::Budget;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Set in a process that was restarted with libacc.so preloaded.
const PRELOADED: &str = "ACCORD_BENCH_PRELOADED";
/// Copies up to this length are verified.
const CHECKED_MAX: u64 = 1 << 20;

/// Runs `accord bench`.
pub(crate) fn bench(args: &BenchArgs) -> Result<u8> {
    let Some(openacc) = OpenAcc::here() else { return Err(with_libacc()) };
    // Read before this program has a session.
    let cluster = viewpoint::cluster()?;
    let devices = openacc.devices();
    if devices == 0 {
        return Err(Failure::new("there are no devices; accord info shows those of this place".to_owned()));
    }
    if args.what == BenchSubject::P2p && devices == 1 {
        return Err(Failure::new(
            "p2p takes two devices, and there is one; try accord run --local-cluster 2x1 -- accord bench p2p"
                .to_owned(),
        ));
    }
    let routes = Routes::new(&cluster, DeviceType::from_raw(openacc.kind()));
    let seconds = Duration::from_secs(args.seconds.into());
    let figures = match args.what {
        BenchSubject::Launch => launches(&openacc, &routes, seconds),
        BenchSubject::Copy | BenchSubject::P2p => copies(&openacc, &routes, args, seconds)?,
    };
    print(&if args.json { show::json(args, &figures, &routes) } else { show::tables(args, &figures, &routes) });
    Ok(0)
}

/// Restarts this command as a program of `accord run`.
fn with_libacc() -> Failure {
    let libacc = match find_libacc() {
        Ok(libacc) => libacc,
        Err(failure) => return failure,
    };
    if std::env::var_os(PRELOADED).is_some() {
        return Failure::new(format!("{} was not loaded; see what the dynamic linker says above", libacc.display()));
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return Failure::system("can't find the accord program", error),
    };
    let mut command = Command::new(&own);
    command
        .args(std::env::args_os().skip(1))
        .env("LD_PRELOAD", preload_with(&libacc))
        .env(settings::LIBACC.name, libacc)
        .env(PRELOADED, "1");
    Failure::start(own, &command.exec())
}

fn launches(openacc: &OpenAcc, routes: &Routes<'_>, seconds: Duration) -> Vec<Figure> {
    let devices = openacc.devices();
    // The first launch starts a device, which is not measured.
    (0..devices).for_each(|device| openacc.launch(device));
    let mut budget = Budget::new(seconds, devices as usize);
    let measured = |device| {
        let times = budget.measure(|| openacc.launch(device), || openacc.launch(device));
        Figure { way: CopyEnds::Launch(device), bytes: None, route: routes.to(device), times }
    };
    (0..devices).map(measured).collect()
}

fn copies(openacc: &OpenAcc, routes: &Routes<'_>, args: &BenchArgs, seconds: Duration) -> Result<Vec<Figure>> {
    let devices = openacc.devices();
    let ways: Vec<CopyEnds> = match args.what {
        BenchSubject::P2p => (0..devices)
            .flat_map(|from| (0..devices).filter(move |&to| to != from).map(move |to| CopyEnds::Between(from, to)))
            .collect(),
        _ => (0..devices).flat_map(|device| [CopyEnds::ToDevice(device), CopyEnds::FromDevice(device)]).collect(),
    };
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut memory = openacc.present(length(sizes.last().copied().unwrap_or(1)));
    let mut budget = Budget::new(seconds, sizes.len() * ways.len());
    let mut figures = Vec::new();
    // Small sizes first: if the time runs out, every way has them.
    for &bytes in &sizes {
        for &way in &ways {
            let memory = std::cell::RefCell::new(&mut memory);
            let mut arrived = true;
            let times = budget.measure(
                || arrived = bytes > CHECKED_MAX || arrives(&mut memory.borrow_mut(), way, length(bytes)),
                || copy(&mut memory.borrow_mut(), way, length(bytes)),
            );
            if !arrived {
                let ends = format!("{way:?}: a copy of {bytes} bytes has changed them");
                return Err(Failure::new(format!("{ends}; this is an error of Accord or of the hardware")));
            }
            let route = match way {
                CopyEnds::Between(from, to) => routes.between(from, to),
                CopyEnds::ToDevice(device) | CopyEnds::FromDevice(device) | CopyEnds::Launch(device) => {
                    routes.to(device)
                }
            };
            figures.push(Figure { way, bytes: Some(bytes), route, times });
        }
    }
    Ok(figures)
}

fn copy(memory: &mut Present<'_>, way: CopyEnds, bytes: usize) {
    match way {
        CopyEnds::ToDevice(device) => memory.to_device(device, bytes),
        CopyEnds::FromDevice(device) => memory.from_device(device, bytes),
        CopyEnds::Between(from, to) => memory.between(from, to, bytes),
        CopyEnds::Launch(_) => {}
    }
}

/// Copies to the target and back, and returns whether the bytes are intact.
fn arrives(memory: &mut Present<'_>, way: CopyEnds, bytes: usize) -> bool {
    let (first, last) = match way {
        CopyEnds::Between(from, to) => (from, to),
        CopyEnds::ToDevice(device) | CopyEnds::FromDevice(device) | CopyEnds::Launch(device) => (device, device),
    };
    let words = bytes / 8;
    let pattern =
        |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(first) << 32 ^ u64::from(last);
    let fill = |memory: &mut Present<'_>, of: &dyn Fn(usize) -> u64| {
        memory.host().iter_mut().take(words).enumerate().for_each(|(index, word)| *word = of(index));
    };
    if first != last {
        fill(memory, &|_| 0);
        memory.to_device(last, bytes);
    }
    fill(memory, &pattern);
    memory.to_device(first, bytes);
    if first != last {
        memory.between(first, last, bytes);
    }
    fill(memory, &|_| 0);
    memory.from_device(last, bytes);
    memory.host().iter().take(words).enumerate().all(|(index, &word)| word == pattern(index))
}
