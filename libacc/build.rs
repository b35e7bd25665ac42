//! Compiles the C part of the ABI: the entry points with variable arguments, and the guard around error callbacks.

fn main() {
    println!("cargo::rerun-if-changed=shim");
    cc::Build::new()
        .file("shim/variadic.c")
        .file("shim/guard.c")
        .flag("-std=gnu11")
        // Hidden, so that calls between the shim and Rust need no PLT.
        .flag("-fvisibility=hidden")
        // A region's C++ exception or a cancelled thread unwinds through the shim.
        .flag("-fexceptions")
        .warnings(true)
        .opt_level(2)
        .compile("accord_shim");
    // Fork handlers, thread keys and threads keep pointing into it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A preloaded copy satisfies a program that is linked with it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libacc.so");
}
