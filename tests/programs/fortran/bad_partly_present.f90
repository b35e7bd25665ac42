! A section that sticks out of what is present: an error, never a second copy.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/a \(bad_partly_present\.f90:\d+, MAIN__\) is present only in part.*acc_error_partly_present/
program main
  use check
  implicit none
  integer :: a(100), i
  a = 1
  !$acc data copyin(a(20:40))
  !$acc parallel loop copy(a(30:60))
  do i = 30, 60
    a(i) = 2
  end do
  !$acc end data
  write (*, '(a)') 'FAIL the region ran'
end program
