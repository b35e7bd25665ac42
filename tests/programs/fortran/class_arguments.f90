! Polymorphic arguments: the object, its members, and type-bound procedures that hold regions.
module shapes
  implicit none
  type, abstract :: shape
    integer :: n = 0
  contains
    procedure(work), deferred :: run
  end type
  type, extends(shape) :: line
    real(8), allocatable :: x(:)
  contains
    procedure :: run => run_line
  end type
  type, extends(shape) :: plane
    real(8) :: y(4, 4)
  contains
    procedure :: run => run_plane
  end type
  abstract interface
    subroutine work(this, by)
      import :: shape
      class(shape), intent(inout) :: this
      real(8), intent(in) :: by
    end subroutine
  end interface
contains
  subroutine run_line(this, by)
    class(line), intent(inout) :: this
    real(8), intent(in) :: by
    integer :: i, n
    n = this%n
    !$acc enter data copyin(this)
    !$acc enter data copyin(this%x)
    !$acc parallel loop present(this)
    do i = 1, n
      this%x(i) = this%x(i) + by
    end do
    !$acc exit data copyout(this%x)
    !$acc exit data delete(this)
  end subroutine
  subroutine run_plane(this, by)
    class(plane), intent(inout) :: this
    real(8), intent(in) :: by
    integer :: i, j
    !$acc parallel loop collapse(2) copy(this)
    do j = 1, 4
      do i = 1, 4
        this%y(i, j) = this%y(i, j)*by
      end do
    end do
  end subroutine
end module
program main
  use check
  use shapes
  implicit none
  class(shape), allocatable :: s
  type(line), target :: l
  l%n = 8
  allocate (l%x(8))
  l%x = 1
  call l%run(2d0)
  call equal('line', sum(l%x), 24d0)
  allocate (s, source=l)
  call s%run(3d0)
  select type (s)
  type is (line)
    call equal('copy', sum(s%x), 48d0)
  end select
  deallocate (s)
  allocate (plane :: s)
  select type (s)
  type is (plane)
    s%y = 5
  end select
  call s%run(2d0)
  select type (s)
  type is (plane)
    call equal('plane', sum(s%y), 160d0)
  end select
  call pass()
end program
