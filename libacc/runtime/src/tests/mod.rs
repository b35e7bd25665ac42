//! The runtime against devices and host memory made of ordinary vectors, with real bytes in them.

mod bare_pointers;
mod by_pointer;
mod by_value;
mod compare;
mod constants;
mod directives;
mod fake;
mod forgotten;
mod objects;
mod observer;
mod page_locks;
mod private_pointers;
mod queues;
mod random;
mod round_trips;
mod routines;
mod threads;
mod traps_data;
mod traps_launch;
mod unmapped;
mod world;
mod write_backs;
