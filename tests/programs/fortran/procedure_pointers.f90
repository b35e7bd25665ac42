! Procedure pointers and procedure arguments choose on the host which region runs, internal procedures with what they share among them.
module solvers
  implicit none
  abstract interface
    subroutine kernel(x, n)
      integer, intent(in) :: n
      real(8), intent(inout) :: x(n)
    end subroutine
  end interface
  type stage
    procedure(kernel), pointer, nopass :: run => null()
  end type
contains
  subroutine twice(x, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: x(n)
    integer :: i
    !$acc parallel loop present(x)
    do i = 1, n
      x(i) = 2*x(i)
    end do
  end subroutine
  subroutine plus_index(x, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: x(n)
    integer :: i
    !$acc parallel loop present(x)
    do i = 1, n
      x(i) = x(i) + i
    end do
  end subroutine
  subroutine apply(what, x, n)
    procedure(kernel) :: what
    integer, intent(in) :: n
    real(8), intent(inout) :: x(n)
    call what(x, n)
  end subroutine
end module
program main
  use check
  use solvers
  implicit none
  type(stage) :: stages(4)
  real(8) :: x(30), shift_
  integer :: k
  stages(1)%run => twice
  stages(2)%run => plus_index
  stages(3)%run => twice
  stages(4)%run => plus_index
  x = 1
  shift_ = 0.5d0
  !$acc data copy(x)
  do k = 1, 4
    call stages(k)%run(x, 30)
  end do
  call apply(plus_index, x, 30)
  call apply(shifted, x, 30)
  !$acc end data
  do k = 1, 30
    call equal('x', x(k), (2d0 + k)*2 + 2*k + 0.5d0)
  end do
  call equal('shared', shift_, 1.5d0)
  call pass()
contains
  subroutine shifted(x, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: x(n)
    integer :: i
    !$acc parallel loop present(x)
    do i = 1, n
      x(i) = x(i) + shift_
    end do
    shift_ = shift_ + 1
  end subroutine
end program
