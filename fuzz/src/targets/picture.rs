//! Pictures that programs have written.

use crate::{Memory, Target};

/// The command line is a program without a library, so this includes its module.
#[allow(dead_code, unreachable_pub, reason = "the command line uses all of it")]
#[path = "../../../cli/src/command/picture.rs"]
mod code;

use code::Picture;

/// Binary PPM.
pub(super) const PICTURES: Target = Target {
    name: "pictures",
    run: pictures,
    seeds,
    words: &["P6", "255", "65536", "4294967295", "#", "\n", " "],
    input_max: 512,
    memory: Memory { fixed: 4 << 10, per_byte: 1 },
    inputs: 60_000,
};

fn pictures(bytes: &[u8]) {
    if let Some(Picture { width, height, pixels }) = Picture::parse(bytes) {
        assert_eq!(pixels.len() as u64, u64::from(width) * u64::from(height) * 3);
        let again = [format!("P6 {width} {height} 255 ").as_bytes(), pixels].concat();
        assert_eq!(Picture::parse(&again), Some(Picture { width, height, pixels }));
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![b"P6\n# made by hand\n2 1\n255\n\n  \t\t\t".to_vec(), b"P6 1 2 255 abcdef".to_vec()]
}
