! declare in a procedure: the lifetime is the call's (2.13).
program main
  use check
  implicit none
  integer :: round
  do round = 1, 4
    call equal('sum', work(round), 55*round)
  end do
  call pass()
contains
  integer function work(k)
    integer, intent(in) :: k
    integer :: loc(10), fx(10), i
    !$acc declare create(loc) copyin(fx)
    fx = k
    !$acc update device(fx)
    !$acc parallel loop
    do i = 1, 10
      loc(i) = i*fx(i)
    end do
    work = 0
    !$acc parallel loop reduction(+:work)
    do i = 1, 10
      work = work + loc(i)
    end do
  end function
end program
