! A generator per thread, in integers of 8 bytes that wrap around, and counts by reduction.
module generator
  implicit none
contains
  subroutine advance(state)
    !$acc routine seq
    integer(8), intent(inout) :: state
    state = ieor(state, ishft(state, 13))
    state = ieor(state, ishft(state, -7))
    state = ieor(state, ishft(state, 17))
  end subroutine
  pure real(8) function uniform(state)
    !$acc routine seq
    integer(8), intent(in) :: state
    uniform = real(ishft(state, -11), 8)/2d0**53
  end function
end module
program main
  use check
  use generator
  implicit none
  integer, parameter :: streams = 64, draws = 500
  integer(8) :: state, inside
  integer :: i, k
  real(8) :: x, y, pi
  inside = 0
  !$acc parallel loop private(state, x, y) reduction(+:inside)
  do i = 1, streams
    state = 88172645463325252_8 + i*1234567891_8
    do k = 1, 10
      call advance(state)
    end do
    do k = 1, draws
      call advance(state)
      x = uniform(state)
      call advance(state)
      y = uniform(state)
      if (x*x + y*y < 1) inside = inside + 1
    end do
  end do
  pi = 4d0*inside/(streams*draws)
  call equal('about pi', abs(pi - 3.14159d0) < 0.05d0, .true.)
  call pass()
end program
