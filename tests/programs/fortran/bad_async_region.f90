! A region in a queue that fails, seen by the wait in another procedure: the message names both.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/wait \(bad_async_region\.f90:\d+, collect\).*region __work_MOD_start.*acc_error_execution/
module work
  implicit none
contains
  subroutine start(a, far)
    integer, intent(inout) :: a(10)
    integer(8), intent(in) :: far
    integer :: i
    !$acc parallel loop copy(a) async(3)
    do i = 1, 10
      a(i + far) = i
    end do
  end subroutine
  subroutine collect()
    !$acc wait(3)
  end subroutine
end module
program main
  use work
  implicit none
  integer :: a(10)
  a = 0
  call start(a, 2_8**44)
  call collect()
  write (*, '(a)') 'FAIL nothing was said'
end program
