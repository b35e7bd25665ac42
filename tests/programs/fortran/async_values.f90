! Queues by constants, expressions, function results and integers of every kind, and the two values with a meaning of their own (2.16).
program main
  use check
  implicit none
  integer, parameter :: n = 500
  integer(1) :: q1 = 7
  integer(2) :: q2 = 300
  integer(8) :: q8 = 70000
  integer :: a(n), i, q
  a = 0
  !$acc data copy(a)
  !$acc parallel loop async(q1)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$acc parallel loop async(q2) wait(q1)
  do i = 1, n
    a(i) = a(i)*2
  end do
  !$acc parallel loop async(q8) wait(q2)
  do i = 1, n
    a(i) = a(i) + 3
  end do
  !$acc parallel loop async(next(5)) wait(q8)
  do i = 1, n
    a(i) = a(i)*2
  end do
  q = next(4) + 1
  !$acc wait(q)
  !$acc parallel loop async(acc_async_sync)
  do i = 1, n
    a(i) = a(i) + 5
  end do
  !$acc update self(a)
  call equal('after a synchronous one', a(n), 15)
  q = acc_async_noval
  !$acc parallel loop async(q)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$acc wait
  !$acc parallel loop async(0)
  do i = 1, n
    a(i) = a(i)*2
  end do
  !$acc wait(0)
  !$acc end data
  call equal('a', count(a /= 32), 0)
  call pass()
contains
  integer function next(k)
    integer, intent(in) :: k
    next = k + 1
  end function
end program
