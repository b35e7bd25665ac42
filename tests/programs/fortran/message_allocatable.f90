! The message names a Fortran array that is behind its descriptor, and the line of the construct.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel \(message_allocatable\.f90:14, message_allocatable\): grid \(message_allocatable\.f90:9, message_allocatable\) is not present on dev\d/
! EXPECT stderr=/acc_error_not_present/
program message_allocatable
  use openacc
  implicit none
  real(8), allocatable :: grid(:, :)
  integer :: i
  allocate(grid(10, 20))
  grid = 1
  i = 0
  !$acc parallel loop present(grid)
  do i = 1, 10
     grid(i, 1) = 2
  end do
  print *, 'FAIL: the region ran', grid(1, 1)
end program
