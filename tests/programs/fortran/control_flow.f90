! What a region may do between its braces: select case, exit, cycle, do while, goto, named loops, and nested conditions.
program main
  use check
  implicit none
  integer :: out(30), primes(30), steps(30), i, j, n
  !$acc parallel loop copyout(out, primes, steps) private(n)
  do i = 1, 30
    select case (mod(i, 5))
    case (0)
      out(i) = 100
    case (1, 2)
      out(i) = 200
    case default
      out(i) = 300
    end select
    primes(i) = 1
    if (i == 1) primes(i) = 0
    search: do j = 2, i - 1
      if (mod(i, j) /= 0) cycle search
      primes(i) = 0
      exit search
    end do search
    steps(i) = 0
    n = i
    do while (n /= 1)
      if (mod(n, 2) == 0) then
        n = n/2
      else
        n = 3*n + 1
      end if
      steps(i) = steps(i) + 1
      if (steps(i) > 1000) go to 10
    end do
10  continue
  end do
  call equal('out', sum(out), 6*100 + 12*200 + 12*300)
  call equal('primes', sum(primes), 10)
  call equal('steps(27)', steps(27), 111)
  call equal('steps(1)', steps(1), 0)
  call pass()
end program
