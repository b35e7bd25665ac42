! Sections with strides and of several dimensions, as data and in update: what lies between is not said to be touched.
module strided
  implicit none
contains
  subroutine add(x, by)
    real(8), intent(inout) :: x(:)
    real(8), intent(in) :: by
    integer :: i
    !$acc parallel loop copy(x)
    do i = 1, size(x)
      x(i) = x(i) + by
    end do
  end subroutine
  subroutine add2(x, by)
    real(8), intent(inout) :: x(:, :)
    real(8), intent(in) :: by
    integer :: i, j
    !$acc parallel loop collapse(2) copy(x)
    do j = 1, size(x, 2)
      do i = 1, size(x, 1)
        x(i, j) = x(i, j) + by
      end do
    end do
  end subroutine
end module
program main
  use check
  use strided
  implicit none
  real(8) :: a(20), m(8, 9)
  real(8), target :: t(12)
  real(8), pointer :: p(:)
  integer :: i, j
  a = 0
  call add(a(1:20:3), 1d0)
  ! GCC names no section for a negative stride: the array has to be there.
  !$acc data copy(a)
  call add(a(20:2:-2), 10d0)
  !$acc end data
  do i = 1, 20
    call equal('a(i)', a(i), merge(1d0, 0d0, mod(i, 3) == 1) + merge(10d0, 0d0, mod(i, 2) == 0))
  end do
  m = 0
  call add2(m(2:7, 3:8), 1d0)
  call add2(m(1:8:7, :), 5d0)
  call add(m(4, :), 100d0)
  call add(m(:, 4), 1000d0)
  do j = 1, 9
    do i = 1, 8
      call equal('m(i, j)', m(i, j), merge(1d0, 0d0, i >= 2 .and. i <= 7 .and. j >= 3 .and. j <= 8) &
        + merge(5d0, 0d0, i == 1 .or. i == 8) + merge(100d0, 0d0, i == 4) + merge(1000d0, 0d0, j == 4))
    end do
  end do
  t = 1
  p => t(2:12:5)
  !$acc parallel loop copy(p)
  do i = 1, size(p)
    p(i) = p(i)*7
  end do
  call equal('t', sum(t), 12 + 3*6d0)
  call equal('t(7)', t(7), 7d0)
  ! A plane, and a row with what lies between its elements.
  !$acc enter data copyin(m)
  !$acc parallel loop collapse(2) present(m)
  do j = 1, 9
    do i = 1, 8
      m(i, j) = 10*i + j
    end do
  end do
  !$acc update self(m(:, 2:3))
  call equal('m(8, 3)', m(8, 3), 83d0)
  !$acc update self(m(5, :))
  call equal('m(5, 9)', m(5, 9), 59d0)
  m(3:4, 6) = -1
  !$acc update device(m(3:4, 6))
  !$acc exit data copyout(m)
  call equal('m(4, 6)', m(4, 6), -1d0)
  call equal('m(5, 6)', m(5, 6), 56d0)
  call pass()
end program
