! Extended types: components of the parent under their own names and by the parent's, in clauses, in regions and as dummies of the
! parent's type.
module particles
  implicit none
  type point
    real(8) :: x(3) = 0
    real(8), allocatable :: trail(:)
  end type
  type, extends(point) :: charge
    real(8) :: q = 1
    integer, allocatable :: marks(:)
  end type
contains
  subroutine shift_(p, by)
    type(point), intent(inout) :: p
    real(8), intent(in) :: by
    integer :: i
    !$acc parallel loop present(p)
    do i = 1, 3
      p%x(i) = p%x(i) + by
    end do
    !$acc parallel loop present(p)
    do i = 1, size(p%trail)
      p%trail(i) = p%trail(i) + by*i
    end do
  end subroutine
end module
program main
  use check
  use particles
  implicit none
  type(charge) :: c
  integer :: i
  allocate (c%trail(10), source=1d0)
  allocate (c%marks(4), source=2)
  !$acc enter data copyin(c)
  !$acc enter data copyin(c%trail, c%marks)
  call shift_(c%point, 2d0)
  !$acc parallel loop present(c)
  do i = 1, 4
    c%marks(i) = c%marks(i) + int(c%x(1)*c%q) + int(c%point%trail(i))
  end do
  !$acc update self(c%x)
  !$acc exit data copyout(c%trail, c%marks)
  !$acc exit data delete(c)
  call equal('x', sum(c%x), 6d0)
  call equal('trail', sum(c%trail), 10d0 + 110)
  call equal('marks', sum(c%marks), 8 + 8 + 4 + 20)
  call pass()
end program
