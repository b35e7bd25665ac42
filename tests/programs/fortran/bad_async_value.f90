! A queue by a number that OpenACC does not know.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/-7/
program main
  use check
  implicit none
  integer :: q, x
  q = -7
  x = 1
  !$acc parallel copy(x) async(q)
  x = 2
  !$acc end parallel
  write (*, '(a)') 'FAIL the region ran'
end program
