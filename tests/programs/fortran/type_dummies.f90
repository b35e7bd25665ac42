! Derived types as dummy arguments: plain, allocatable, pointers, with allocatable members, and arrays of them.
module types
  implicit none
  type inner
    real(8), allocatable :: v(:)
    integer :: tag = 0
  end type
  type outer
    integer :: n
    integer, allocatable :: a(:)
    real(8) :: fixed(3)
    type(inner) :: in
  end type
contains
  subroutine entered(x)
    type(outer), intent(inout) :: x
    integer :: i
    !$acc enter data copyin(x)
    !$acc enter data copyin(x%a, x%in%v)
    !$acc parallel loop present(x)
    do i = 1, x%n
      x%a(i) = x%a(i) + 1
      x%in%v(i) = x%in%v(i)*2
    end do
    !$acc serial present(x)
    x%fixed = x%fixed + 1
    x%in%tag = 5
    !$acc end serial
    !$acc update self(x%fixed, x%in%tag)
    !$acc exit data copyout(x%a, x%in%v)
    !$acc exit data delete(x)
  end subroutine
  subroutine of_pointer(x)
    type(outer), pointer, intent(inout) :: x
    integer :: i
    !$acc enter data copyin(x)
    !$acc enter data copyin(x%a)
    !$acc parallel loop present(x)
    do i = 1, x%n
      x%a(i) = x%a(i) + 1
    end do
    !$acc exit data copyout(x%a)
    !$acc exit data delete(x)
  end subroutine
  subroutine of_allocatable(x)
    type(outer), allocatable, intent(inout) :: x
    integer :: i
    !$acc enter data copyin(x)
    !$acc enter data copyin(x%a)
    !$acc parallel loop present(x)
    do i = 1, x%n
      x%a(i) = x%a(i) + 1
    end do
    !$acc exit data copyout(x%a)
    !$acc exit data delete(x)
  end subroutine
  subroutine of_many(xs)
    type(inner), allocatable, intent(inout) :: xs(:)
    integer :: i, k
    !$acc enter data copyin(xs)
    do k = 1, size(xs)
      !$acc enter data copyin(xs(k)%v)
    end do
    !$acc parallel loop gang present(xs)
    do k = 1, size(xs)
      !$acc loop vector
      do i = 1, size(xs(k)%v)
        xs(k)%v(i) = xs(k)%v(i) + 100*k
      end do
    end do
    do k = 1, size(xs)
      !$acc exit data copyout(xs(k)%v)
    end do
    !$acc exit data delete(xs)
  end subroutine
end module
program main
  use check
  use types
  implicit none
  type(outer) :: x
  type(outer), pointer :: p
  type(outer), allocatable :: a
  type(inner), allocatable :: xs(:)
  integer :: k
  x%n = 6
  allocate (x%a(6), x%in%v(6))
  x%a = 1
  x%fixed = 0.5d0
  x%in%v = 3
  call entered(x)
  call equal('entered', sum(x%a), 12)
  call equal('v', sum(x%in%v), 36d0)
  call equal('fixed', sum(x%fixed), 4.5d0)
  call equal('tag', x%in%tag, 5)
  allocate (p, a)
  p%n = 3
  a%n = 4
  allocate (p%a(3), a%a(4))
  p%a = 10
  a%a = 20
  call of_pointer(p)
  call equal('pointer', sum(p%a), 33)
  call of_allocatable(a)
  call equal('allocatable', sum(a%a), 84)
  allocate (xs(5))
  do k = 1, 5
    allocate (xs(k)%v(k))
    xs(k)%v = k
  end do
  call of_many(xs)
  do k = 1, 5
    call equal('xs(k)', sum(xs(k)%v), 101d0*k*k)
  end do
  call pass()
end program
