! serial and kernels: loops that depend on each other, scalars that are assigned, and several loops in one construct.
program main
  use check
  implicit none
  integer :: a(40), b(40), i, last, n
  real(8) :: x, y, total
  a = 1
  n = 40
  x = 0.5d0
  !$acc serial copy(a) copyout(last)
  do i = 2, n
    a(i) = a(i) + a(i - 1)
  end do
  last = a(n)
  !$acc end serial
  call equal('prefix', a(40), 40)
  call equal('last', last, 40)
  !$acc kernels copyin(a) copyout(b)
  y = x*4
  do i = 1, n
    b(i) = a(i) + int(y)
  end do
  do i = 2, n
    b(i) = b(i) + b(i - 1)
  end do
  last = b(n)
  total = 0
  do i = 1, n
    total = total + b(i)
  end do
  !$acc end kernels
  call equal('y', y, 2d0)
  call equal('b', b(40), 820 + 80)
  call equal('last of kernels', last, 900)
  call equal('total', total, sum(real(b, 8)))
  !$acc kernels loop reduction(max:last) copyin(b)
  do i = 1, n
    last = max(last, 2*b(i))
  end do
  call equal('largest', last, 1800)
  !$acc kernels async(2) copy(a)
  do i = 1, n
    a(i) = -a(i)
  end do
  !$acc end kernels
  !$acc wait(2)
  call equal('negated', sum(a), -820)
  call pass()
end program
