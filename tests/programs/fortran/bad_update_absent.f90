! update of an array that is not on the device, by way of a dummy argument: the message names it and the line.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/update \(bad_update_absent\.f90:\d+, bring\).*not present.*acc_error_not_present/
module m
contains
  subroutine bring(x)
    real, intent(inout) :: x(:)
    !$acc update self(x)
  end subroutine
end module
program main
  use check
  use m
  implicit none
  real :: a(10)
  a = 1
  call bring(a)
  write (*, '(a)') 'FAIL nothing was said'
end program
