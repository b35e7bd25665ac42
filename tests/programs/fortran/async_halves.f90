! The two halves of an array in two queues, joined by a third that waits for both by one clause.
program main
  use check
  implicit none
  integer, parameter :: n = 4000
  integer :: a(n), total, i
  a = 1
  total = 0
  !$acc enter data create(a)
  !$acc update device(a(:n/2)) async(1)
  !$acc update device(a(n/2 + 1:)) async(2)
  !$acc parallel loop present(a) async(1)
  do i = 1, n/2
    a(i) = a(i) + i
  end do
  !$acc parallel loop present(a) async(2)
  do i = n/2 + 1, n
    a(i) = a(i) - i
  end do
  !$acc parallel loop present(a) reduction(+:total) async(3) wait(1, 2)
  do i = 1, n
    total = total + a(i)
  end do
  !$acc exit data copyout(a) async(3)
  !$acc wait(3)
  call equal('total', total, n - (n/2)**2)
  call equal('a(n)', a(n), 1 - n)
  call pass()
end program
