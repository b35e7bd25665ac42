// The C part of fortran/unmapped_c_pointer.f90.
void twice(double *a, int n)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        a[i] *= 2;
}
