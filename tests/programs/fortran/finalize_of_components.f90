! exit data with finalize, of a component: ends what the component has, and leaves what the object's counters have of their own. GCC
! sends the component's descriptor beside its array (2.6.6, 2.6.7).
! EXPECT device-memory
module boxes
  implicit none
  type inner
    integer :: m = 0
    real, allocatable :: r(:)
  end type
  type box
    integer :: n = 0
    real, allocatable :: a(:)
    real, pointer :: p(:) => null()
    real, pointer :: s => null()
    type(inner) :: in
    type(inner), pointer :: by => null()
    real :: v(4) = 0
  end type
end module

program main
  use check
  use openacc
  use boxes
  implicit none
  type(box), target :: x
  type(box), allocatable, target :: y
  type(box), pointer :: z
  allocate (y, z)
  call fill(x)
  call fill(y)
  call fill(z)
  call variable
  call dummy(x)
  call dummy(y)
  call allocated
  call pointed
  call routines
  call pass
contains
  subroutine fill(b)
    type(box), intent(inout) :: b
    allocate (b%a(10), b%p(10), b%s, b%in%r(10), b%by)
    allocate (b%by%r(10))
    b%a = 1; b%p = 2; b%s = 3; b%in%r = 4; b%by%r = 5
  end subroutine

  subroutine fresh(b)
    type(box), intent(inout) :: b
    b%n = 5
    !$acc enter data copyin(b)
    !$acc serial present(b)
    b%n = 42
    !$acc end serial
  end subroutine

  ! The object is the device's still, and goes with one more reference.
  subroutine stays(what, b)
    character(*), intent(in) :: what
    type(box), intent(inout) :: b
    integer :: n
    n = 0
    call equal(what, acc_is_present(b%v), .true.)
    !$acc serial copyout(n) present(b)
    n = b%n
    !$acc end serial
    call equal(what, n, 42)
    !$acc exit data delete(b)
    call equal(what, acc_is_present(b%v), .false.)
  end subroutine

  subroutine variable
    integer :: i
    call fresh(x)
    !$acc enter data copyin(x%a, x%p)
    !$acc enter data copyin(x%a)
    !$acc parallel loop present(x)
    do i = 1, 10
      x%a(i) = x%a(i) + x%p(i)
    end do
    !$acc exit data copyout(x%a) finalize
    call equal('a is gone', acc_is_present(x%a), .false.)
    call equal('a', x%a(10), 3.)
    x%a = 1
    !$acc exit data delete(x%p) finalize
    !$acc exit data delete(x%p) finalize
    !$acc exit data delete(x%p)
    call equal('p is gone', acc_is_present(x%p), .false.)
    call stays('allocatable and pointer', x)

    call fresh(x)
    !$acc enter data copyin(x%s)
    !$acc exit data delete(x%s) finalize
    call stays('scalar pointer', x)

    call fresh(x)
    !$acc enter data copyin(x%in%r)
    !$acc exit data delete(x%in%r) finalize
    call equal('r is gone', acc_is_present(x%in%r), .false.)
    call stays('two levels', x)

    call fresh(x)
    !$acc enter data copyin(x%by)
    !$acc enter data copyin(x%by%r)
    !$acc exit data delete(x%by%r) finalize
    call equal('by%r is gone', acc_is_present(x%by%r), .false.)
    call equal('by', acc_is_present(x%by%m), .true.)
    !$acc exit data delete(x%by) finalize
    call stays('two levels by a pointer', x)

    call fresh(x)
    !$acc enter data copyin(x%a)
    !$acc exit data detach(x%a) finalize
    call equal('a stays', acc_is_present(x%a), .true.)
    !$acc exit data delete(x%a) detach(x%a) finalize
    call equal('a is gone', acc_is_present(x%a), .false.)
    call stays('detached', x)

    call fresh(x)
    !$acc enter data copyin(x%v)
    !$acc exit data delete(x%v) finalize
    call stays('array in the object', x)

    !$acc enter data copyin(x%a)
    !$acc enter data copyin(x%a)
    call fresh(x)
    !$acc exit data delete(x%a) finalize
    call equal('a is gone', acc_is_present(x%a), .false.)
    call stays('component first', x)
  end subroutine

  subroutine dummy(b)
    type(box), intent(inout) :: b
    call fresh(b)
    !$acc enter data copyin(b%a, b%p)
    !$acc exit data delete(b%a) finalize
    !$acc exit data copyout(b%p) finalize
    !$acc exit data copyout(b%p) finalize
    call equal('a of a dummy', acc_is_present(b%a), .false.)
    call equal('p of a dummy', acc_is_present(b%p), .false.)
    call stays('dummy', b)
  end subroutine

  subroutine allocated
    call fresh(y)
    !$acc enter data copyin(y%a)
    !$acc exit data delete(y%a) finalize
    !$acc exit data delete(y%a)
    call equal('a of an allocatable', acc_is_present(y%a), .false.)
    call stays('allocatable object', y)
  end subroutine

  subroutine pointed
    call fresh(z)
    !$acc enter data copyin(z%p, z%in%r)
    !$acc exit data delete(z%p, z%in%r) finalize
    !$acc exit data delete(z%p)
    call equal('p of a pointer', acc_is_present(z%p), .false.)
    call stays('object by a pointer', z)
  end subroutine

  subroutine routines
    call fresh(x)
    !$acc enter data copyin(x%a, x%p)
    call acc_delete_finalize(x%a)
    call acc_copyout_finalize(x%p)
    call equal('a by a routine', acc_is_present(x%a), .false.)
    call equal('p by a routine', acc_is_present(x%p), .false.)
    !$acc exit data delete(x%a, x%p) finalize
    call stays('routines', x)
  end subroutine
end program
