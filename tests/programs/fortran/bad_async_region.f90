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
    integer(8) :: busy
    integer :: i, k
    ! It takes a while before it fails, so that the copy back is in the queue by then.
    !$acc parallel loop copy(a) async(3) private(busy, k)
    do i = 1, 10
      busy = i
      do k = 1, 20000000
        busy = mod(busy * 3 + 1, 2_8**40)
      end do
      a(i + far + mod(busy, 8_8)) = i
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
