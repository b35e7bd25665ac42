! A program compiled with -fcheck=bounds whose region leaves its array: the compiler's message comes out, and then the error.
! BUILD flags=-fcheck=bounds
! BUILD offload=no
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/Index '41' of dimension 1 of array 'a' above upper bound of 40/
! EXPECT stderr=/bad_bounds_checked\.f90:\d+.*acc_error_execution/
program main
  implicit none
  integer :: a(40), i, n
  a = 0
  n = 41
  !$acc parallel loop copy(a)
  do i = 1, n
    a(i) = i
  end do
  write (*, '(a)') 'FAIL the region ran'
end program
