! Arrays of some MiB, of rank 7, and sections in the middle of them.
program main
  use check
  implicit none
  real(8), allocatable :: a(:), b(:, :)
  integer(2) :: r(2, 3, 2, 3, 2, 3, 2)
  integer, parameter :: n = 1500000
  integer :: i, j, k
  allocate (a(n), b(1000, 500))
  a = 1
  !$acc data copyin(a) copyout(b)
  !$acc parallel loop
  do i = 1, n
    a(i) = a(i) + i
  end do
  !$acc update self(a(700001:900000))
  !$acc parallel loop collapse(2)
  do j = 1, 500
    do i = 1, 1000
      b(i, j) = a((j - 1)*1000 + i)
    end do
  end do
  !$acc end data
  call equal('a(700000)', a(700000), want(1d0, 700001d0))
  call equal('a(700001)', a(700001), 700002d0)
  call equal('a(900000)', a(900000), 900001d0)
  call equal('a(900001)', a(900001), want(1d0, 900002d0))
  call equal('b(1000, 500)', b(1000, 500), 500001d0)
  call equal('b(1, 1)', b(1, 1), 2d0)
  r = 0
  !$acc parallel loop collapse(3) copy(r)
  do k = 1, 2
    do j = 1, 3
      do i = 1, 2
        r(i, j, k, 3, 2, 1, 2) = int(i + 10*j + 100*k, 2)
      end do
    end do
  end do
  call equal('r', int(r(2, 3, 2, 3, 2, 1, 2)), 232)
  call equal('sum of r', sum(int(r)), sum([(((i + 10*j + 100*k, i = 1, 2), j = 1, 3), k = 1, 2)]))
  call pass()
end program
