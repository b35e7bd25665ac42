! Arrays with lower bounds below and above 1: local, allocatable, dummies, sections.
module bounds
  implicit none
contains
  subroutine kept(a)
    integer, intent(inout) :: a(-5:)
    integer :: i
    !$acc parallel loop copy(a)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
  end subroutine
  subroutine adjusted(lo, hi, a)
    integer, intent(in) :: lo, hi
    integer, intent(inout) :: a(lo:hi, lo:hi)
    integer :: i, j
    !$acc parallel loop collapse(2) copy(a(:, lo:0))
    do j = lo, 0
      do i = lo, hi
        a(i, j) = i*100 + j
      end do
    end do
  end subroutine
end module
program main
  use check
  use bounds
  implicit none
  integer :: a(-10:9), m(-2:2, -2:2), i
  real(8), allocatable :: c(:, :, :)
  a = 0
  !$acc parallel loop copy(a(-10:-1))
  do i = -10, -1
    a(i) = -i
  end do
  call equal('a(-10)', a(-10), 10)
  call equal('a(0)', a(0), 0)
  call kept(a)
  call equal('first', a(-10), 5)
  call equal('last', a(9), 14)
  m = 7
  call adjusted(-2, 2, m)
  call equal('m(-2, -1)', m(-2, -1), -201)
  call equal('m(2, 1)', m(2, 1), 7)
  allocate (c(0:3, -1:1, 5:6))
  c = 1
  !$acc enter data copyin(c)
  !$acc parallel loop present(c)
  do i = 0, 3
    c(i, -1, 5) = i
    c(i, 1, 6) = 10*i
  end do
  !$acc update self(c(:, -1:-1, 5:5))
  call equal('c(3, -1, 5)', c(3, -1, 5), 3d0)
  call equal('c(3, 1, 6)', c(3, 1, 6), want(1d0, 30d0))
  !$acc exit data copyout(c)
  call equal('c(3, 1, 6) at last', c(3, 1, 6), 30d0)
  call pass()
end program
