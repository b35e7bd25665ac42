! routine: seq, vector, worker and gang, in a module, elemental ones, and one that uses module data (2.15.1).
module levels
  implicit none
  integer :: factor = 3
  !$acc declare copyin(factor)
contains
  elemental real(8) function square(x)
    !$acc routine seq
    real(8), intent(in) :: x
    square = x*x
  end function
  subroutine along(row, n, k)
    !$acc routine vector
    integer, intent(in) :: n, k
    real(8), intent(inout) :: row(n)
    integer :: i
    !$acc loop vector
    do i = 1, n
      row(i) = row(i) + square(real(k, 8))*factor
    end do
  end subroutine
  subroutine over(plane, n, m)
    !$acc routine worker
    integer, intent(in) :: n, m
    real(8), intent(inout) :: plane(n, m)
    integer :: i, j
    !$acc loop worker
    do j = 1, m
      !$acc loop vector
      do i = 1, n
        plane(i, j) = plane(i, j)*2
      end do
    end do
  end subroutine
  subroutine everywhere(a, n)
    !$acc routine gang
    integer, intent(in) :: n
    real(8), intent(inout) :: a(n)
    integer :: i
    !$acc loop gang vector
    do i = 1, n
      a(i) = a(i) - i
    end do
  end subroutine
  subroutine twice(x)
    !$acc routine seq
    integer, intent(inout) :: x
    x = 2*x
  end subroutine
end module
program main
  use check
  use levels
  implicit none
  real(8) :: a(16, 6, 4), flat(64)
  integer :: f(20), i, j, k
  a = 1
  !$acc data copy(a)
  !$acc parallel loop gang collapse(2)
  do k = 1, 4
    do j = 1, 6
      call along(a(:, j, k), 16, k)
    end do
  end do
  !$acc parallel loop gang
  do k = 1, 4
    call over(a(:, :, k), 16, 6)
  end do
  !$acc end data
  do k = 1, 4
    call equal('a', a(16, 6, k), 2d0*(1 + 3*k*k))
    call equal('sum', sum(a(:, :, k)), 96*2d0*(1 + 3*k*k))
  end do
  flat = 100
  !$acc parallel num_gangs(8) copy(flat)
  call everywhere(flat, 64)
  !$acc end parallel
  call equal('flat', sum(flat), 6400d0 - 32*65)
  !$acc parallel loop copyout(f)
  do i = 1, 20
    f(i) = i
    call twice(f(i))
  end do
  call equal('f(20)', f(20), 40)
  call pass()
end program
