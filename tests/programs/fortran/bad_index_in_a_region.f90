! A region that writes so far outside of its array that there are no addresses: the message says that, and names the line.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/bad_index_in_a_region\.f90:\d+.*(at what is no address|CUDA_ERROR_ILLEGAL_ADDRESS).*acc_error_execution/
program main
  use check
  implicit none
  integer :: a(10)
  integer(8) :: far
  far = 2_8**45
  a = 1
  !$acc parallel num_gangs(1) copy(a)
  a(far) = 1
  !$acc end parallel
  write (*, '(a)') 'FAIL the region ran'
end program
