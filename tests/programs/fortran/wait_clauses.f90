! wait as clause and as directive, with values that are known at run time, and without any (2.16.3).
program main
  use check
  implicit none
  integer, parameter :: n = 20000
  integer :: a(n), b(n), c(n), i, q(3), k
  q = [5, 17, 300]
  a = 0
  b = 0
  c = 0
  !$acc enter data copyin(a, b, c) async(q(1))
  !$acc wait(q(1))
  do k = 1, 3
    !$acc parallel loop present(a) async(q(1))
    do i = 1, n
      a(i) = a(i) + i
    end do
    !$acc parallel loop present(a, b) async(q(2)) wait(q(1))
    do i = 1, n
      b(i) = b(i) + a(i)
    end do
    !$acc parallel loop present(b, c) async(q(3)) wait(q(1), q(2))
    do i = 1, n
      c(i) = c(i) + b(i)
    end do
    !$acc wait(q(3)) async(q(1))
  end do
  !$acc update self(c(1:10)) async(q(1))
  !$acc wait(q(1))
  call equal('c(10)', c(10), 10 + 30 + 60)
  !$acc kernels present(c) async
  do i = 1, n
    c(i) = c(i) - 1
  end do
  !$acc end kernels
  !$acc wait async(q(2))
  !$acc exit data copyout(c) delete(a, b) async(q(2))
  !$acc wait
  do i = 1, n
    call equal('c(i)', c(i), 10*i - 1)
  end do
  call equal('all done', acc_async_test_all(), .true.)
  call pass()
end program
