! A multigrid cycle: levels in an array of a type, each with allocatable fields of its own size, smoothed, restricted and corrected by
! procedures that call themselves.
module grids
  implicit none
  type level
    integer :: n
    real(8), allocatable :: u(:), f(:), r(:)
  end type
  type(level), target :: levels(6)
contains
  subroutine smooth(u, f, n, times)
    integer, intent(in) :: n, times
    real(8), intent(inout) :: u(0:n)
    real(8), intent(in) :: f(0:n)
    real(8) :: h
    integer :: i, k, colour
    h = 1d0/n
    do k = 1, times
      do colour = 1, 2
        !$acc parallel loop present(u, f) async(1)
        do i = colour, n - 1, 2
          u(i) = 0.5d0*(u(i - 1) + u(i + 1) + h*h*f(i))
        end do
      end do
    end do
  end subroutine
  subroutine residual(u, f, r, n)
    integer, intent(in) :: n
    real(8), intent(in) :: u(0:n), f(0:n)
    real(8), intent(inout) :: r(0:n)
    integer :: i
    !$acc parallel loop present(u, f, r) async(1)
    do i = 1, n - 1
      r(i) = f(i) + (u(i - 1) - 2*u(i) + u(i + 1))*(1d0*n)*n
    end do
  end subroutine
  subroutine restrict_(r, f, u, n)
    integer, intent(in) :: n
    real(8), intent(in) :: r(0:2*n)
    real(8), intent(inout) :: f(0:n), u(0:n)
    integer :: i
    !$acc parallel loop present(r, f, u) async(1)
    do i = 0, n
      u(i) = 0
      if (i > 0 .and. i < n) f(i) = 0.25d0*(r(2*i - 1) + 2*r(2*i) + r(2*i + 1))
    end do
  end subroutine
  subroutine correct(c, u, n)
    integer, intent(in) :: n
    real(8), intent(in) :: c(0:n)
    real(8), intent(inout) :: u(0:2*n)
    integer :: i
    !$acc parallel loop present(c, u) async(1)
    do i = 0, n - 1
      u(2*i) = u(2*i) + c(i)
      u(2*i + 1) = u(2*i + 1) + 0.5d0*(c(i) + c(i + 1))
    end do
  end subroutine
  recursive subroutine cycle_(l)
    integer, intent(in) :: l
    if (l == size(levels)) then
      call smooth(levels(l)%u, levels(l)%f, levels(l)%n, 40)
      return
    end if
    call smooth(levels(l)%u, levels(l)%f, levels(l)%n, 2)
    call residual(levels(l)%u, levels(l)%f, levels(l)%r, levels(l)%n)
    call restrict_(levels(l)%r, levels(l + 1)%f, levels(l + 1)%u, levels(l + 1)%n)
    call cycle_(l + 1)
    call correct(levels(l + 1)%u, levels(l)%u, levels(l + 1)%n)
    call smooth(levels(l)%u, levels(l)%f, levels(l)%n, 2)
  end subroutine
end module
program main
  use check
  use grids
  implicit none
  integer :: l, k, n, i
  real(8) :: worst
  do l = 1, size(levels)
    n = 256/2**(l - 1)
    levels(l)%n = n
    allocate (levels(l)%u(0:n), levels(l)%f(0:n), levels(l)%r(0:n))
    levels(l)%u = 0
    levels(l)%f = 2
    levels(l)%r = 0
    associate (u => levels(l)%u, f => levels(l)%f, r => levels(l)%r)
      !$acc enter data copyin(u, f, r)
    end associate
  end do
  do k = 1, 9
    call cycle_(1)
  end do
  do l = 1, size(levels)
    associate (u => levels(l)%u, f => levels(l)%f, r => levels(l)%r)
      !$acc exit data copyout(u) delete(f, r) async(1)
    end associate
  end do
  !$acc wait
  worst = 0
  do i = 0, 256
    worst = max(worst, abs(levels(1)%u(i) - (i/256d0)*(1 - i/256d0)))
  end do
  call equal('the solution of -u'''' = 2', worst < 1d-8, .true.)
  call pass()
end program
