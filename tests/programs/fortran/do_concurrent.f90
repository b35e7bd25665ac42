! DO CONCURRENT, plain and with locality, inside of constructs, and beside them.
program main
  use check
  implicit none
  integer :: a(50), b(6, 7), i, j
  a = 0
  !$acc kernels copy(a)
  do concurrent (i=1:50)
    a(i) = a(i) + i
  end do
  !$acc end kernels
  call equal('a', sum(a), 1275)
  !$acc parallel copyout(b)
  do concurrent (j=1:7, i=1:6)
    b(i, j) = 10*i + j
  end do
  !$acc end parallel
  call equal('b', sum(b), 10*21*7 + 28*6)
  !$acc data copyin(a) copy(b)
  do concurrent (i=1:6)
    b(i, 1) = a(i)
  end do
  !$acc update device(b(:, 1))
  !$acc serial
  do concurrent (i=1:50, mod(i, 2) == 0)
    a(i) = -1
  end do
  b(1, 2) = sum(a)
  !$acc end serial
  !$acc end data
  call equal('b(6, 1)', b(6, 1), 6)
  call equal('b(1, 2)', b(1, 2), 625 - 25)
  call pass()
end program
