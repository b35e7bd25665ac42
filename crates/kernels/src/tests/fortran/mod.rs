//! Rewritten Fortran, compiled by the machine's gfortran and run.

mod built;
mod nests;
mod programs;
