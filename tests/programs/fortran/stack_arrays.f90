! Automatic arrays on the stack (-fstack-arrays) of procedures that call themselves: each level's data is its own, and its address comes back
! at the next call.
! BUILD flags=-fstack-arrays
module work
  implicit none
contains
  recursive real(8) function half(n, x) result(r)
    integer, intent(in) :: n
    real(8), intent(in) :: x(n)
    real(8) :: left(n/2), right(n - n/2), total
    integer :: i
    if (n <= 3) then
      r = sum(x)
      return
    end if
    !$acc data create(left, right) copyin(x)
    !$acc parallel loop
    do i = 1, n/2
      left(i) = x(i)
    end do
    !$acc parallel loop
    do i = 1, n - n/2
      right(i) = x(n/2 + i)
    end do
    !$acc update self(left, right)
    total = half(n/2, left)
    total = total + half(n - n/2, right)
    !$acc end data
    r = total
  end function
end module
program main
  use check
  use work
  implicit none
  real(8) :: x(40)
  integer :: i
  x = [(i*1d0, i = 1, 40)]
  call equal('the sum', half(40, x), 820d0)
  call equal('of a part', half(13, x), 91d0)
  call pass()
end program
