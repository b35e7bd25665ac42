! Modules whose variables declared_updates.f90 updates: in another file, as module files show it.
module numbers
  integer :: n = 0
  real :: weights(3) = 0
  !$acc declare create(n, weights)
end module
module state
  use numbers
  implicit none
  type cell
    integer :: i = 0
    real :: x(3) = 0
  end type
  real(8) :: dt = 0
  real(8) :: v(10) = 0, m(2, 3) = 0
  type(cell) :: c, cs(4)
  complex :: mass
  character(5) :: name
  logical :: on
  !$acc declare create(dt, v, m, c, cs) copyin(mass, name) create(on)
contains
  subroutine fill(a)
    real(8) :: a(:)
    integer :: i
    !$acc parallel loop copy(a)
    do i = 1, size(a)
      call one(a(i))
    end do
  end subroutine
  subroutine one(x)
    !$acc routine seq
    real(8), intent(inout) :: x
    x = n*dt + v(1) + m(2, 3) + c%i + c%x(3) + cs(4)%i + weights(2) + aimag(mass) + ichar(name(1:1))
    if (on) x = x + 1
  end subroutine
  subroutine change()
    !$acc parallel num_gangs(1)
    call touch()
    !$acc end parallel
  end subroutine
  subroutine touch()
    !$acc routine seq
    v(2) = -2
    dt = 9
    c%i = 44
  end subroutine
  subroutine failed(code)
    integer, intent(in) :: code
    print '(a, i0)', 'FAIL ', code
    stop 1
  end subroutine
end module
