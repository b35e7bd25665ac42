//! Rewritten Fortran, compiled by the machine's gfortran and run.

mod built;
mod implicit;
mod nests;
mod programs;
