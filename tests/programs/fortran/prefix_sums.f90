! A prefix sum by doubling steps between two arrays that change roles, as many regions as there are bits in the length.
program main
  use check
  implicit none
  integer, parameter :: n = 1000
  integer :: a(n, 2), i, step, from
  a(:, 1) = [(mod(i, 7), i = 1, n)]
  a(:, 2) = 0
  from = 1
  step = 1
  !$acc data copy(a)
  do while (step < n)
    !$acc parallel loop present(a)
    do i = 1, n
      a(i, 3 - from) = a(i, from)
      if (i > step) a(i, 3 - from) = a(i, 3 - from) + a(i - step, from)
    end do
    from = 3 - from
    step = 2*step
  end do
  !$acc end data
  do i = 1, n
    call equal('the sum up to here', a(i, from), 21*(i/7) + mod(i, 7)*(mod(i, 7) + 1)/2)
  end do
  call pass()
end program
