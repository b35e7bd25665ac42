! A present clause for absent data, in Fortran.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_error_not_present/
program main
  implicit none
  integer :: a(10), i
  a = 0
  !$acc parallel loop present(a)
  do i = 1, 10
    a(i) = i
  end do
  write (*, '(a)') 'FAIL: the region ran'
end program
