//! The generated code that is checked in matches the `.proto` files.

use std::path::{Path, PathBuf};

/// Set to 1 to write the generated code instead of comparing.
const REGENERATE: &str = "ACCORD_PROTO_REGENERATE";

fn generate(into: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<PathBuf> = ["common", "registry", "cluster", "jobs", "reservations", "watch", "admin", "executor"]
        .iter()
        .map(|name| root.join(format!("accord/v1/{name}.proto")))
        .collect();
    tonic_prost_build::configure()
        .out_dir(into)
        .codec_path("crate::codec::BoundedCodec")
        .compile_protos(&files, &[root.to_path_buf()])
        .expect("protoc accepts the .proto files");
}

fn has_protoc() -> bool {
    let protoc = std::env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    std::process::Command::new(protoc).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn generated_code_is_fresh() {
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gen");
    if !has_protoc() {
        println!("skipped: no protoc (package protobuf-compiler)");
        return;
    }
    if std::env::var_os(REGENERATE).is_some_and(|value| value == "1") {
        generate(&checked_in);
        return;
    }
    let fresh = tempfile::tempdir().expect("a temporary directory");
    generate(fresh.path());
    let name = "accord.v1.rs";
    let new = std::fs::read_to_string(fresh.path().join(name)).expect("generated code");
    let old = std::fs::read_to_string(checked_in.join(name)).unwrap_or_default();
    assert!(
        new == old,
        "proto/src/gen/{name} is stale; write it with: {REGENERATE}=1 cargo test -p accord-proto --test fresh"
    );
}
