//! `accord __png`: converts a PPM picture to PNG, for the demo.

use super::picture::Picture;
use crate::failure::{Failure, Result};
use crate::internal_args::PngArgs;
use png::{BitDepth, ColorType, Compression, Encoder};
use std::fs::File;
use std::io::BufWriter;

/// Runs `accord __png`.
pub(crate) fn png(args: &PngArgs) -> Result<u8> {
    let bytes = std::fs::read(&args.input)
        .map_err(|error| Failure::system(format!("can't read {}", args.input.display()), error))?;
    let picture = Picture::parse(&bytes)
        .ok_or_else(|| Failure::new(format!("{} is no binary PPM with 8 bits a colour", args.input.display())))?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::system(format!("can't write {}", args.output.display()), error);
    let file = File::create(&args.output).map_err(|error| failed(&error))?;
    let mut encoder = Encoder::new(BufWriter::new(file), picture.width, picture.height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    let mut writer = encoder.write_header().map_err(|error| failed(&error))?;
    writer.write_image_data(picture.pixels).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))?;
    Ok(0)
}
