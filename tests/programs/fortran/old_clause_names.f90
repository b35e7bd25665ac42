! The older names of data clauses, and directives over several lines, in either case.
program main
  use check
  implicit none
  integer :: a(20), b(20), c(20), d(20), i
  a = 1
  b = 2
  c = 3
  !$acc data present_or_copy(a) present_or_copyin(b) &
  !$acc      present_or_copyout(c) &
  !$acc &    present_or_create(d)
  !$ACC PARALLEL LOOP PCOPY(A) PCOPYIN(B) PCREATE(D)
  do i = 1, 20
    d(i) = a(i) + b(i)
  end do
  !$acc parallel loop &
  !$acc pcopyout(c) & ! with a comment
  !$acc copy(a)
  do i = 1, 20
    c(i) = d(i)*10
    a(i) = -1
  end do
  !$acc update host(c)
  call equal('c', sum(c), 600)
  c = 0
  !$acc end data
  call equal('c at the end', sum(c), want(600, 0))
  call equal('a', sum(a), -20)
  !$ a = 7
  call equal('conditional line', a(1), want_line())
  call pass()
contains
  integer function want_line()
    want_line = -1
    !$ want_line = 7
  end function
end program
