! Infinities, NaN, signed zeros and subnormal numbers: they go to the device and come back bit by bit, and comparisons and minima there know
! them.
program main
  use check
  use, intrinsic :: ieee_arithmetic
  implicit none
  real(8) :: x(6), y(6), low
  integer(8) :: bits(6)
  logical :: same(6)
  integer :: i
  x = [ieee_value(1d0, ieee_positive_inf), ieee_value(1d0, ieee_negative_inf), ieee_value(1d0, ieee_quiet_nan), &
    -0d0, tiny(1d0)/2**20, -huge(1d0)]
  bits = transfer(x, bits)
  y = 0
  !$acc data copyin(x) copyout(y, same)
  !$acc parallel loop
  do i = 1, 6
    same(i) = x(i) == x(i)
    y(i) = x(i)
  end do
  !$acc end data
  call equal('bit by bit', count(transfer(y, bits) /= bits), 0)
  call equal('all but NaN', count(same), 5)
  call equal('NaN', same(3), .false.)
  low = huge(low)
  !$acc parallel loop reduction(min:low) copyin(x)
  do i = 4, 6
    low = min(low, x(i))
  end do
  call equal('the least', low, -huge(1d0))
  !$acc parallel loop copy(x)
  do i = 1, 2
    x(i) = 1/x(i)
  end do
  call equal('1/inf', x(1), 0d0)
  call equal('its sign', sign(1d0, x(2)), -1d0)
  call pass()
end program
