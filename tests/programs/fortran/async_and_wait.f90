! Queues and waits in Fortran.
program main
  use check
  implicit none
  integer, parameter :: n = 1000
  integer :: a(n), b(n), c(n), i, q
  q = 2
  !$acc data create(a, b) copyout(c)
  !$acc parallel loop async(1)
  do i = 1, n
    a(i) = i
  end do
  !$acc parallel loop async(q)
  do i = 1, n
    b(i) = 2*i
  end do
  !$acc wait(1, q) async(3)
  !$acc parallel loop async(3)
  do i = 1, n
    c(i) = a(i) + b(i)
  end do
  !$acc parallel loop async wait(3)
  do i = 1, n
    c(i) = c(i) + 1
  end do
  !$acc update self(c) async
  !$acc wait
  call equal('c(n) before the end', c(n), 3*n + 1)
  !$acc end data
  do i = 1, n
    call equal('c(i)', c(i), 3*i + 1)
  end do
  call pass()
end program
