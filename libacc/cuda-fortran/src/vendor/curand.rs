//! cuRAND, as C and module `curand` call it. A generator's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, forwarded, handles};

/// `CURAND_STATUS_OUT_OF_RANGE`.
const OUT_OF_RANGE: i32 = 104;

static CURAND: VendorLibrary =
    VendorLibrary::new("cuRAND", &["libcurand.so.10", "libcurand.so.11", "libcurand.so"], c"curandSetStream");

handles! {
    CURAND, OUT_OF_RANGE;
    curandCreateGenerator(kind), curandDestroyGenerator, curandSetStream
}

forwarded! {
    CURAND, usize;
    curandGenerateSeeds();
    curandSetQuasiRandomGeneratorDimensions(n);
    curandSetGeneratorOrdering(order);
    curandSetPseudoRandomGeneratorSeed(seed);
    curandSetGeneratorOffset(offset);
    curandGenerate(p_output n);
    curandGenerateLongLong(p_output n);
    curandGenerateUniform(p_output n);
    curandGenerateUniformDouble(p_output n);
    curandGenerateNormal(p_output n; mean: f32, deviation: f32);
    curandGenerateNormalDouble(p_output n; mean: f64, deviation: f64);
    curandGenerateLogNormal(p_output n; mean: f32, deviation: f32);
    curandGenerateLogNormalDouble(p_output n; mean: f64, deviation: f64);
    curandGeneratePoisson(p_output n; lambda: f64);
}

/// Defines routines whose last integer has four bytes.
macro_rules! of_four_bytes {
    ($($name:ident => $routine:ident($($argument:ident)* $(; $($number:ident: $kind:ty),+)?);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(generator: usize, $($argument: usize,)* value: i32, $($($number: $kind),+)?) -> i32 {
            $routine(generator, $($argument,)* value as usize, $($($number),+)?)
        }
    )*};
}

of_four_bytes! {
    curandSetPseudoRandomGeneratorSeed_i4 => curandSetPseudoRandomGeneratorSeed();
    curandSetGeneratorOffset_i4 => curandSetGeneratorOffset();
    curandGenerate_i4 => curandGenerate(output);
    curandGenerateLongLong_i4 => curandGenerateLongLong(output);
    curandGenerateUniform_i4 => curandGenerateUniform(output);
    curandGenerateUniformDouble_i4 => curandGenerateUniformDouble(output);
    curandGenerateNormal_i4 => curandGenerateNormal(output; mean: f32, deviation: f32);
    curandGenerateNormalDouble_i4 => curandGenerateNormalDouble(output; mean: f64, deviation: f64);
    curandGenerateLogNormal_i4 => curandGenerateLogNormal(output; mean: f32, deviation: f32);
    curandGenerateLogNormalDouble_i4 => curandGenerateLogNormalDouble(output; mean: f64, deviation: f64);
    curandGeneratePoisson_i4 => curandGeneratePoisson(output; lambda: f64);
}
