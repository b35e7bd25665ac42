! A region on a CPU device has the rounding mode that the program has set by ieee_arithmetic.
! BUILD offload=no
program floating_point_environment
  use check
  use, intrinsic :: ieee_arithmetic
  implicit none
  real(real64) :: x(2), up, down, nearest
  x = [1d0, 3d0]
  call divide(nearest)
  call ieee_set_rounding_mode(ieee_up)
  call divide(up)
  call ieee_set_rounding_mode(ieee_down)
  call divide(down)
  call ieee_set_rounding_mode(ieee_nearest)
  call equal('up is above down', up > down, .true.)
  call equal('nearest is one of the two', nearest == up .or. nearest == down, .true.)
  call divide(up)
  call equal('nearest again', up, nearest)
  call pass()
contains
  subroutine divide(quotient)
    real(real64), intent(out) :: quotient
    !$acc parallel copyin(x) copyout(quotient)
    quotient = x(1) / x(2)
    !$acc end parallel
  end subroutine
end program
