! Allocatable arrays: descriptors and their data, of rank 1 and 2.
! BUILD core
program main
  use check
  implicit none
  integer, allocatable :: a(:), b(:, :)
  integer :: i, j
  allocate (a(100), b(-2:7, 5:14))
  a = 1
  !$acc data copy(a) create(b)
  !$acc parallel loop
  do i = 1, 100
    a(i) = a(i) + i
  end do
  !$acc parallel loop present(a, b)
  do j = 5, 14
    do i = -2, 7
      b(i, j) = 10*j + i + a(1)
    end do
  end do
  !$acc update self(b)
  call equal('a(5) before the end', a(5), want(1, 6))
  !$acc end data
  do i = 1, 100
    call equal('a(i)', a(i), i + 1)
  end do
  do j = 5, 14
    do i = -2, 7
      call equal('b(i, j)', b(i, j), 10*j + i + 2)
    end do
  end do
  call equal('lbound', lbound(b, 2), 5)
  call pass()
end program
