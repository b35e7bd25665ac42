! A wait directive for a queue by a number below those that have a meaning.
! EXPECT exit=1
! EXPECT device-memory
! EXPECT stderr=/wait \(bad_async_value_in_wait\.f90:\d+, (main|MAIN__)\).*-9.*acc_error_invalid_async/
program main
  implicit none
  integer :: a(10), q
  a = 1
  q = -9
  !$acc data copy(a)
  !$acc wait(q)
  !$acc end data
  write (*, '(a)') 'FAIL waited for queue -9'
end program
