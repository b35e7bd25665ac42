! Asynchronous regions of procedures that return at once: their dummies' descriptors, scalars and local bounds are gone when the
! regions run.
module work
  implicit none
contains
  subroutine shape_(a, by, q)
    real(8), intent(inout) :: a(-2:)
    real(8), intent(in), value :: by
    integer, intent(in) :: q
    integer :: i, last
    last = ubound(a, 1)
    !$acc parallel loop present(a) async(q)
    do i = -2, last
      a(i) = a(i) + by*i
    end do
  end subroutine
  subroutine allocatable_(a, by, q)
    real(8), allocatable, intent(inout) :: a(:)
    real(8), intent(in), value :: by
    integer, intent(in) :: q
    integer :: i
    !$acc parallel loop present(a) async(q)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + by*i
    end do
  end subroutine
  subroutine pointer_(a, by, q)
    real(8), pointer, intent(in) :: a(:)
    real(8), intent(in), value :: by
    integer, intent(in) :: q
    integer :: i
    !$acc parallel loop present(a) async(q)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + by*i
    end do
  end subroutine
  subroutine size_(n, a, by, q)
    integer, intent(in) :: n, q
    real(8), intent(inout) :: a(*)
    real(8), intent(in), value :: by
    integer :: i
    !$acc parallel loop present(a(1:n)) async(q)
    do i = 1, n
      a(i) = a(i) + by*i
    end do
  end subroutine
  ! Writes over what the calls before have left on the stack.
  recursive integer function scribble(depth) result(r)
    integer, intent(in) :: depth
    integer, volatile :: waste(400)
    waste = depth
    r = waste(depth)
    if (depth > 1) r = r + scribble(depth - 1)
  end function
end module
program main
  use check
  use work
  implicit none
  integer, parameter :: n = 50
  real(8), allocatable, target :: x(:)
  real(8), pointer :: p(:)
  integer :: k, waste
  allocate (x(n))
  x = 0
  p => x
  waste = 0
  !$acc enter data copyin(x)
  do k = 1, 20
    call shape_(x, 1d0, 3)
    waste = waste + scribble(5)
    call allocatable_(x, 2d0, 3)
    waste = waste + scribble(4)
    call pointer_(p, 3d0, 3)
    waste = waste + scribble(6)
    call size_(n, x, 4d0, 3)
    waste = waste + scribble(3)
  end do
  !$acc exit data copyout(x) async(3)
  !$acc wait(3)
  do k = 1, n
    call equal('x', x(k), 20d0*(10*k - 3))
  end do
  call equal('the stack was used', waste, 20*(15 + 10 + 21 + 6))
  call pass()
end program
