! Dummy arrays of every shape: explicit, adjustable, assumed size, assumed shape, contiguous, value, and sequence association.
module shapes
  implicit none
contains
  subroutine explicit(x)
    real(4), intent(inout) :: x(3, 4)
    integer :: i, j
    !$acc parallel loop collapse(2) copy(x)
    do j = 1, 4
      do i = 1, 3
        x(i, j) = x(i, j) + 10*i + j
      end do
    end do
  end subroutine
  subroutine adjustable(x, n, m)
    integer, intent(in) :: n, m
    real(4), intent(inout) :: x(n, m)
    integer :: i, j
    !$acc parallel loop collapse(2) copy(x)
    do j = 1, m
      do i = 1, n
        x(i, j) = x(i, j)*2
      end do
    end do
  end subroutine
  subroutine assumed_size(x, n)
    integer, intent(in) :: n
    real(4), intent(inout) :: x(*)
    integer :: i
    !$acc parallel loop copy(x(1:n))
    do i = 1, n
      x(i) = x(i) + 1
    end do
  end subroutine
  subroutine assumed_size_2(x, n)
    integer, intent(in) :: n
    real(4), intent(inout) :: x(3, *)
    integer :: i
    !$acc parallel loop copy(x(:, 1:n))
    do i = 1, n
      x(2, i) = -x(2, i)
    end do
  end subroutine
  subroutine contiguous_shape(x)
    real(4), contiguous, intent(inout) :: x(:, :)
    integer :: i, j
    !$acc data copy(x)
    !$acc parallel loop collapse(2)
    do j = 1, size(x, 2)
      do i = 1, size(x, 1)
        x(i, j) = x(i, j) + 100
      end do
    end do
    !$acc end data
  end subroutine
  subroutine by_value(x, k)
    real(4), intent(inout) :: x(:)
    integer, value :: k
    integer :: i
    !$acc parallel loop copy(x)
    do i = 1, size(x)
      x(i) = k
    end do
  end subroutine
end module
program main
  use check
  use shapes
  implicit none
  real(4) :: a(3, 4), b(5, 6)
  integer :: i, j
  a = 0
  call explicit(a)
  call adjustable(a, 3, 4)
  call assumed_size(a, 12)
  call assumed_size_2(a, 4)
  do j = 1, 4
    do i = 1, 3
      call equal('a', a(i, j), (2*(10*i + j) + 1)*merge(-1.0, 1.0, i == 2))
    end do
  end do
  b = 1
  call contiguous_shape(b(2:4, 1:5:2))
  call equal('b', sum(b), 30 + 900.0)
  call by_value(b(1, :), 8)
  call equal('b again', sum(b), 30 + 900.0 + 6*7)
  b = 0
  call explicit(b(1, 2))
  call equal('sequence', b(5, 2), 22.0)
  call adjustable(b(1:2, 1:2), 2, 2)
  call equal('sequence doubled', b(1, 2), 22.0)
  call pass()
end program
