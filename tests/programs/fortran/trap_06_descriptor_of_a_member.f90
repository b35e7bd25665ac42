! Members of a derived type: their descriptors must reach the device with bounds, not only as memory.
! BUILD core
program main
  use check
  implicit none
  type :: v
    integer :: n = 0
    real, allocatable :: a(:), q(:, :)
    real :: fixed(4) = 0
  end type
  type(v) :: t
  real :: total
  integer :: i, lower
  t%n = 9
  allocate (t%a(3:11), t%q(2, 5))
  t%a = 2
  t%q = 3
  t%fixed = 1
  !$acc enter data copyin(t)
  !$acc enter data copyin(t%a, t%q)
  !$acc parallel present(t) copyout(total, lower)
  total = 0
  lower = lbound(t%a, 1)
  do i = lbound(t%a, 1), ubound(t%a, 1)
    total = total + t%a(i)
    t%a(i) = i
  end do
  do i = 1, size(t%q, 2)
    total = total + t%q(1, i) + t%q(2, i)
  end do
  t%fixed(2) = total
  !$acc end parallel
  call equal('total', total, 48.0)
  call equal('lower', lower, 3)
  !$acc update self(t%a)
  call equal('t%a(7)', t%a(7), 7.0)
  !$acc exit data copyout(t%a) delete(t%q)
  !$acc exit data copyout(t%fixed)
  !$acc exit data delete(t)
  call equal('t%a(11)', t%a(11), 11.0)
  call equal('size', size(t%a), 9)
  call members_alone()
  call pass()
contains
  subroutine members_alone()
    type(v) :: w
    integer :: i
    allocate (w%a(5))
    w%n = 5
    w%a = 1
    w%fixed = 2
    !$acc data copy(w%n, w%a(2:5), w%fixed)
    !$acc parallel present(w%n, w%a(2:5), w%fixed)
    do i = 2, 5
      w%a(i) = w%a(i) + w%n
    end do
    w%fixed(1) = -1
    !$acc end parallel
    !$acc end data
    call equal('w%a(1)', w%a(1), 1.0)
    call equal('w%a(5)', w%a(5), 6.0)
    call equal('w%fixed(1)', w%fixed(1), -1.0)
    !$acc parallel loop copy(w%a)
    do i = 1, 5
      w%a(i) = i
    end do
    call equal('w%a(3)', w%a(3), 3.0)
  end subroutine
end program
