! A type that looks after its own device data: constructors, type-bound procedures with regions, generic bindings, operators on the
! host, and a finalizer that takes it off the device.
module fields
  implicit none
  integer :: alive = 0
  type field
    integer :: n = 0
    real(8), pointer, contiguous :: v(:) => null()
  contains
    procedure :: start
    procedure, private :: add_scalar, add_field
    generic :: add => add_scalar, add_field
    procedure :: total
    procedure, pass(other) :: onto
    final :: finish
  end type
contains
  subroutine start(this, n, value)
    class(field), intent(inout) :: this
    integer, intent(in) :: n
    real(8), intent(in) :: value
    this%n = n
    allocate (this%v(n))
    this%v = value
    alive = alive + 1
    associate (v => this%v)
      !$acc enter data copyin(v)
    end associate
  end subroutine
  subroutine add_scalar(this, s)
    class(field), intent(inout) :: this
    real(8), intent(in) :: s
    integer :: i
    associate (v => this%v)
      !$acc parallel loop present(v)
      do i = 1, size(v)
        v(i) = v(i) + s*i
      end do
    end associate
  end subroutine
  subroutine add_field(this, f)
    class(field), intent(inout) :: this
    type(field), intent(in) :: f
    integer :: i
    associate (v => this%v, w => f%v)
      !$acc parallel loop present(v, w)
      do i = 1, size(v)
        v(i) = v(i) + w(i)
      end do
    end associate
  end subroutine
  real(8) function total(this) result(r)
    class(field), intent(in) :: this
    integer :: i
    r = 0
    associate (v => this%v)
      !$acc parallel loop present(v) reduction(+:r)
      do i = 1, size(v)
        r = r + v(i)
      end do
    end associate
  end function
  subroutine onto(target_, other)
    real(8), intent(out) :: target_(:)
    class(field), intent(in) :: other
    integer :: i
    associate (v => other%v)
      !$acc parallel loop present(v) copyout(target_)
      do i = 1, size(v)
        target_(i) = v(i)
      end do
    end associate
  end subroutine
  subroutine finish(this)
    type(field), intent(inout) :: this
    if (.not. associated(this%v)) return
    associate (v => this%v)
      !$acc exit data delete(v)
    end associate
    deallocate (this%v)
    alive = alive - 1
  end subroutine
end module
program main
  use check
  use fields
  implicit none
  integer :: k
  do k = 1, 8
    call work(k)
    call equal('all gone', alive, 0)
  end do
  call pass()
contains
  subroutine work(k)
    integer, intent(in) :: k
    type(field) :: a
    type(field), allocatable :: b
    real(8) :: copy(10*k)
    call a%start(10*k, 1d0)
    allocate (b)
    call b%start(10*k, 0.5d0)
    call b%add(2d0)
    call a%add(b)
    call b%onto(copy)
    deallocate (b)
    call equal('one left', alive, 1)
    call equal('total', a%total(), 10*k*1.5d0 + 10*k*(10*k + 1))
    call equal('copy', copy(10), 20.5d0)
  end subroutine
end program
