! Sums into the elements of an array, which GCC refuses in a reduction clause, in the ways that it takes: a scalar each, atomic
! updates, and a private copy for each gang (2.9.11).
program main
  use check
  implicit none
  integer, parameter :: n = 900, bins = 5, gangs = 6
  integer :: x(n), h(bins), i, b, g, s
  real(8) :: part(bins, gangs), total(bins), own(bins)
  x = [(mod(i*i, bins) + 1, i = 1, n)]
  h = 10
  !$acc data copyin(x) copy(h)
  do b = 1, bins
    s = h(b)
    !$acc parallel loop reduction(+:s)
    do i = 1, n
      if (x(i) == b) s = s + 1
    end do
    h(b) = s
  end do
  !$acc update device(h)
  !$acc parallel loop
  do i = 1, n
    !$acc atomic update
    h(x(i)) = h(x(i)) + 1
  end do
  !$acc end data
  do b = 1, bins
    call equal('h', h(b), 10 + 2*count(x == b))
  end do
  total = 0
  !$acc data copyin(x) create(part) copy(total)
  !$acc parallel loop gang private(own)
  do g = 1, gangs
    own = 0
    !$acc loop seq
    do i = g, n, gangs
      own(x(i)) = own(x(i)) + 0.5d0
    end do
    !$acc loop seq
    do i = 1, bins
      part(i, g) = own(i)
    end do
  end do
  !$acc parallel loop
  do b = 1, bins
    do g = 1, gangs
      total(b) = total(b) + part(b, g)
    end do
  end do
  !$acc end data
  do b = 1, bins
    call equal('total', total(b), 0.5d0*count(x == b))
  end do
  call pass()
end program
