! Scalars that are allocatable, with `declare create`: regions read the device's own pointer to them, and clauses name what it points to.
! EXPECT device-memory
module numbers
  implicit none
  integer, allocatable :: k
  complex(8), allocatable :: z(:)
  character(5), allocatable :: names(:)
  real(8), allocatable :: factor
  !$acc declare create(k, z, names, factor)
end module
program main
  use check
  use numbers
  implicit none
  integer :: i, r
  do r = 1, 3
    allocate (k, z(4*r), names(r), factor)
    k = r
    z = (1d0, 2d0)
    names = 'abcde'
    factor = 0.5d0
    !$acc enter data create(k, z, names, factor)
    !$acc update device(k, z, names, factor)
    !$acc parallel loop present(k, z, names, factor)
    do i = 1, size(z)
      z(i) = conjg(z(i))*k*factor
    end do
    !$acc parallel loop present(names)
    do i = 1, r
      names(i)(2:2) = 'X'
    end do
    !$acc kernels present(k)
    k = k + 5
    !$acc end kernels
    !$acc update self(k, z, names)
    call equal('k', k, r + 5)
    if (any(z /= (0.5d0, -1d0)*r)) call failed('z')
    if (any(names /= 'aXcde')) call failed('names')
    !$acc exit data delete(k, z, names, factor)
    deallocate (k, z, names, factor)
  end do
  call pass
end program
