! kernels constructs with names of another source's module and of an included file.
subroutine scale(n, a)
  use kernels_data, only: dp, factor, weights, times
  implicit none
  integer, intent(in) :: n
  real(dp), intent(inout) :: a(n)
  include 'kernels_sizes.inc'
  integer :: i
  !$acc kernels
  do i = 1, n
    a(i) = times(a(i))*factor + weights(i) + extra
  end do
  a(2:n) = a(2:n)*2
  !$acc end kernels
  !$acc kernels
  do i = 2, n
    a(i) = a(i) + a(i-1)
  end do
  !$acc end kernels
end subroutine

program main
  use check
  use kernels_data
  implicit none
  real(dp) :: a(50), b(50)
  integer :: i
  do i = 1, 50
    weights(i) = 2*i
    a(i) = i
  end do
  call scale(50, a)
  do i = 1, 50
    b(i) = 6*i + 2*i + 7
    if (i > 1) b(i) = b(i)*2 + b(i-1)
  end do
  call equal('a', all(a == b), .true.)
  call pass()
end program
