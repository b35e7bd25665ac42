! update self of a named constant after a region changed the device's copy: the change can't come back.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/changed.*read-only.*acc_error_invalid_argument/
module tables
  implicit none
  real(8), parameter :: weights(500) = 0.5d0
contains
  subroutine scale_(w)
    real(8) :: w(500)
    integer :: i
    !$acc parallel loop copy(w)
    do i = 1, 500
      w(i) = 2*w(i)
    end do
  end subroutine
end module
program main
  use tables
  implicit none
  call scale_(weights)
  write (*, '(a)') 'FAIL the change is lost'
end program
