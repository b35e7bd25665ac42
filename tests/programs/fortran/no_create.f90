! no_create: data that is there is used, and data that is not is not brought (2.7.10).
program main
  use check
  implicit none
  integer :: a(10), b(10), i
  logical :: there
  a = 1
  b = 1
  !$acc enter data copyin(a)
  !$acc data no_create(a, b)
  call equal('a', acc_is_present(a), .true.)
  call equal('b', acc_is_present(b), want(.false., .true.))
  !$acc parallel loop present(a)
  do i = 1, 10
    a(i) = a(i) + i
  end do
  !$acc end data
  there = acc_is_present(b)
  !$acc parallel num_gangs(1) no_create(b) copy(a) copyin(there)
  do i = 1, 10
    a(i) = a(i)*2
    if (there) b(i) = 7
  end do
  !$acc end parallel
  call equal('b(1)', b(1), want(1, 7))
  !$acc exit data copyout(a)
  call equal('a', sum(a), 130)
  call pass()
end program
