! Constants of num_gangs that GCC's image has no room for: every iteration is done, once (2.5.10).
program main
  use check
  implicit none
  integer, parameter :: length = 250001, many = 100000
  integer :: a(length), i, j, n
  n = length - 3
  a = 0
  !$acc data copy(a)
  !$acc parallel loop gang num_gangs(many) present(a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$acc parallel loop num_gangs(65536) present(a)
  do i = n, 1, -1
    a(i) = a(i) + 1
  end do
  !$acc parallel loop gang vector num_gangs(131077) present(a)
  do i = 1, length
    a(i) = a(i) + 1
  end do
  !$acc parallel loop gang collapse(2) num_gangs(65537) present(a)
  do j = 0, n / 500 - 1
    do i = 1, 500
      a(j * 500 + i) = a(j * 500 + i) + 1
    end do
  end do
  !$acc end data
  do i = 1, length
    j = 1 + merge(2, 0, i <= n) + merge(1, 0, i <= n / 500 * 500)
    if (a(i) /= j) call equal('element', a(i), j)
  end do
  call pass()
end program
