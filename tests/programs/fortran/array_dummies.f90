! Assumed-shape, assumed-size and explicit-shape dummies in clauses and implicitly.
program main
  use check
  implicit none
  integer :: x(30), y(5, 6), z(20), i, j
  x = 1
  y = 2
  z = 3
  call shaped(x, y)
  call sized(z, 20)
  call explicit(x, 30)
  do i = 1, 30
    call equal('x(i)', x(i), (1 + i)*2)
  end do
  do j = 1, 6
    do i = 1, 5
      call equal('y(i, j)', y(i, j), 2 + i*j)
    end do
  end do
  do i = 1, 20
    call equal('z(i)', z(i), 3*i)
  end do
  call shaped(x(1:29:2), y(2:4, 1:6:2)) ! not contiguous: packed for the call
  call equal('x(3)', x(3), 8 + 2)
  call equal('x(4)', x(4), 10)
  call equal('y(3, 3)', y(3, 3), 2 + 9 + 4)
  call pass()
contains
  subroutine shaped(x, y)
    integer, intent(inout) :: x(:), y(:, :)
    integer :: i, j
    !$acc parallel loop copy(x)
    do i = 1, size(x)
      x(i) = x(i) + i
    end do
    !$acc parallel loop
    do j = 1, size(y, 2)
      do i = 1, size(y, 1)
        y(i, j) = y(i, j) + i*j
      end do
    end do
  end subroutine
  subroutine sized(z, n)
    integer, intent(in) :: n
    integer, intent(inout) :: z(*)
    integer :: i
    !$acc parallel loop copy(z(1:n))
    do i = 1, n
      z(i) = z(i)*i
    end do
  end subroutine
  subroutine explicit(x, n)
    integer, intent(in) :: n
    integer, intent(inout) :: x(n)
    integer :: i
    !$acc parallel loop
    do i = 1, n
      x(i) = x(i)*2
    end do
  end subroutine
end program
