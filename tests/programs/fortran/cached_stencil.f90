! cache, in a stencil with pointers that change places each step (2.10).
module relax
  implicit none
contains
  subroutine step(old, new, n)
    integer, intent(in) :: n
    real(8), pointer, intent(in) :: old(:)
    real(8), pointer, intent(inout) :: new(:)
    integer :: i
    !$acc parallel loop present(old, new)
    do i = 2, n - 1
      !$acc cache(old(i-1:i+1))
      new(i) = (old(i - 1) + old(i + 1))/2
    end do
  end subroutine
end module
program main
  use check
  use relax
  implicit none
  integer, parameter :: n = 64
  real(8), target :: a(n), b(n)
  real(8) :: x(n), y(n)
  real(8), pointer :: old(:), new(:), t(:)
  integer :: i, k
  a = 0
  a(1) = 1
  a(n) = 3
  b = a
  x = a
  y = a
  old => a
  new => b
  !$acc data copy(a, b)
  do k = 1, 100
    call step(old, new, n)
    t => old
    old => new
    new => t
  end do
  !$acc end data
  do k = 1, 50
    do i = 2, n - 1
      y(i) = (x(i - 1) + x(i + 1))/2
    end do
    do i = 2, n - 1
      x(i) = (y(i - 1) + y(i + 1))/2
    end do
  end do
  do i = 1, n
    call equal('old', abs(old(i) - x(i)) < 1d-14, .true.)
    call equal('new', abs(new(i) - y(i)) < 1d-14, .true.)
  end do
  call pass()
end program
