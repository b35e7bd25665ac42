//! GPU code, argument blocks, and locations of other processes' memory.

use super::first;
use crate::{Memory, Target};
use accord_device::MemoryHandle;
use accord_device::image::{
    BlockLayout, EntryParameters, Image, ImageFunction, ImageVariable, Kernel, decode_program, gangs_apart, header,
    rewrite,
};
use accord_types::ArgBlock;
use accord_types::kernel_launch::{EncodedLaunch, KernelArgument, KernelLaunch};

/// Images that programs send to executors, and their descriptions.
pub(super) const IMAGES: Target = Target {
    name: "images",
    run: images,
    seeds: image_seeds,
    words: &["main$_omp_fn$0"],
    input_max: 4 << 10,
    memory: Memory { fixed: 8 << 10, per_byte: 64 },
    inputs: 20_000,
};

/// PTX texts.
pub(super) const PTX: Target = Target {
    name: "ptx",
    run: ptx,
    seeds: ptx_seeds,
    words: &[
        ".version 7.8\n",
        ".target sm_90\n",
        ".entry ",
        ".visible ",
        ".param .u64 %in_ar0",
        ".entry k(",
        ".param .align 8 .b8 p[24],",
        "ld.param.u64 %ar0, [%in_ar0];\n",
        "ld.u64 %r1, [%ar0+8];\n",
        "mov.u64 ",
        "%ar0",
        "{\n",
        "}\n",
        "(",
        ")",
        "atom.cas.b64 ",
        "bar.sync 0;\n",
        "@%r1 bra $L1;\n",
        "$L1:\n",
        "// ",
        "18446744073709551615",
        "4294967295",
        "536870912",
        "-1",
    ],
    input_max: 32 << 10,
    memory: Memory { fixed: 64 << 10, per_byte: 128 },
    inputs: 1_000,
};

/// Argument blocks of launches, and how kernels receive them.
pub(super) const BLOCKS: Target = Target {
    name: "blocks",
    run: blocks,
    seeds: block_seeds,
    words: &[],
    input_max: 5 << 10,
    memory: Memory { fixed: 16 << 10, per_byte: 16 },
    inputs: 40_000,
};

/// The location of a range of device memory, as its owner's process reports it.
pub(super) const MEMORY_HANDLES: Target = Target {
    name: "memory_handles",
    run: memory_handles,
    seeds: memory_handle_seeds,
    words: &[],
    input_max: 4 << 10,
    memory: Memory { fixed: 4 << 10, per_byte: 16 },
    inputs: 60_000,
};

fn images(bytes: &[u8]) {
    if let Ok(image) = Image::decode(bytes) {
        let again = Image::decode(&image.encode().unwrap()).unwrap();
        assert_eq!(again, image);
        assert_eq!(again.id(), image.id());
        let _ = image.prints();
    }
    let _ = decode_program(bytes);
}

fn ptx(mut bytes: &[u8]) {
    let sm = [30, 60, 70, 90, 120, u32::MAX][usize::from(first(&mut bytes) % 6)];
    let text = String::from_utf8_lossy(bytes);
    let _ = header(&text);
    let rewritten = rewrite(&text, sm);
    for kernel in &rewritten.kernels {
        assert!(rewritten.text.contains(&kernel.name), "the kernel {} is gone", kernel.name);
    }
    assert_eq!(rewrite(&text, sm), rewritten);
    for name in ["k", "main$_omp_fn$0"] {
        assert!(EntryParameters::read(&text, name).is_none_or(|entry| entry.bytes() <= EntryParameters::BYTES_MAX));
    }
    let function = |kernel: &Kernel| ImageFunction { name: kernel.name.clone(), dims: [0, 1, 32] };
    let functions: Vec<_> = rewritten.kernels.iter().map(function).collect();
    let image = Image { objects: vec![text.into_owned().into_bytes()], functions, variables: Vec::new() };
    assert_eq!(gangs_apart(&image).len(), image.functions.len());
}

/// The first bytes: slots of the launch, and slots that the kernel reads.
fn blocks(mut bytes: &[u8]) {
    let mut number =
        || u32::from_le_bytes([first(&mut bytes), first(&mut bytes), first(&mut bytes), first(&mut bytes)]);
    let (slots, read) = (number(), number());
    let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
    let Some(block) = ArgBlock::decode(bytes, slots, &mut words) else { return };
    assert!(block.relative_offsets().all(|at| at + 8 <= block.bytes.len()));
    if let Some((at, launch)) = EncodedLaunch::of_block(&block) {
        let inside = |argument: usize, len: usize| at + argument + len <= block.bytes.len();
        assert!(launch.arguments().all(|argument| inside(argument.at, argument.bytes.len())));
        assert!(launch.slots().count() * 16 <= block.bytes.len());
    }
    let Some(layout) = BlockLayout::new(read) else { return };
    assert!(layout.bytes as usize <= BlockLayout::BYTES_MAX);
    let mut parameter = vec![0; layout.bytes as usize];
    for at in [None, Some(u64::MAX - 7), Some(1 << 44)] {
        layout.pack(&block, at, &mut parameter);
    }
}

fn memory_handles(bytes: &[u8]) {
    if let Ok(handle) = MemoryHandle::decode(bytes) {
        assert!(handle.bytes() > 0);
        assert_eq!(handle.encode(), bytes);
    }
}

fn image_seeds() -> Vec<Vec<u8>> {
    let image = Image {
        objects: vec![b".version 6.0".to_vec(), Vec::new(), vec![b'x'; 100]],
        functions: vec![
            ImageFunction { name: "main$_omp_fn$0".to_owned(), dims: [0, 1, 32] },
            ImageFunction { name: "f".to_owned(), dims: [0; 3] },
        ],
        variables: vec![ImageVariable { name: "a_variable_of_a_long_name".to_owned() }],
    };
    let empty = Image { objects: Vec::new(), functions: Vec::new(), variables: Vec::new() };
    let described = accord_device::image::encode_program(&Vec::new()).unwrap();
    vec![image.encode().unwrap(), empty.encode().unwrap(), described]
}

fn ptx_seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/image/src/fixtures");
    let mut seeds = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|extension| extension == "ptx") {
            let text = std::fs::read_to_string(file).unwrap();
            // A few kernels each, because short inputs run more often than long ones.
            for (at, _) in text.match_indices("// BEGIN FUNCTION DEF").step_by(2) {
                let end = text[at..].match_indices("\n}\n").nth(1).map_or(text.len(), |(end, _)| at + end + 3);
                let part = format!("\x03.version 6.0\n.target sm_30\n.address_size 64\n{}", &text[at..end]);
                seeds.push(part.into_bytes());
            }
        }
    }
    assert!(!seeds.is_empty(), "no kernels in {folder}");
    seeds
}

fn block_seeds() -> Vec<Vec<u8>> {
    let block = |slots: u32, read: u32, relative: u64, private: usize| {
        let mut bytes = [slots.to_le_bytes(), read.to_le_bytes()].concat();
        bytes.extend(relative.to_le_bytes());
        (0..slots).for_each(|slot| bytes.extend((u64::from(slot) * 16).to_le_bytes()));
        bytes.extend(vec![0x55; private]);
        bytes
    };
    let argument = |bytes, by_address| KernelArgument { bytes: vec![7; bytes], by_address };
    let launch = KernelLaunch {
        grid: [2, 1, 1],
        block: [32, 1, 1],
        slots: vec![(8, 9)],
        arguments: vec![argument(4, false), argument(20, true)],
        ..KernelLaunch::default()
    };
    let mut kernel = [1_u32, 1].map(u32::to_le_bytes).concat();
    kernel.extend([1, 16, 0].into_iter().chain(launch.encode()).flat_map(u64::to_le_bytes));
    vec![block(0, 0, 0, 0), block(4, 4, 0b101, 64), block(30, 28, 1, 16), block(2, 2, 0b1110, 400), kernel]
}

fn memory_handle_seeds() -> Vec<Vec<u8>> {
    const PIECE: u64 = 64 << 20;
    let handle = |offset: u64, len: u64, pieces: u64| -> Vec<u8> {
        let head = [3, 1 << 40, offset, len, 0];
        let pieces = (0..pieces).flat_map(|id| [id, PIECE]);
        head.into_iter().chain(pieces).flat_map(u64::to_le_bytes).collect()
    };
    let seeds = vec![handle(0, PIECE, 1), handle(100, 3 * PIECE, 4), handle(1, 1, 1)];
    assert!(seeds.iter().all(|seed| MemoryHandle::decode(seed).is_ok()));
    seeds
}
