! Attaching a pointer component copies its descriptor, too: after another association the device knows the new bounds (2.7.2).
! EXPECT device-memory
module boxes
  implicit none
  type box
    integer :: n = 0
    real(8), pointer :: p(:) => null()
    real(8), pointer :: q(:, :) => null()
    real(8), allocatable :: a(:)
    complex, pointer :: z(:) => null()
    character(5), pointer :: c(:) => null()
  end type
end module

program main
  use check
  use openacc
  use boxes
  use iso_c_binding
  implicit none
  type(box), target :: x
  real(8), pointer :: a(:), b(:), wide(:, :)
  real(8), target :: cells(2, 12)
  complex, pointer :: z(:)
  character(5), pointer :: c(:)
  integer :: i
  allocate (a(10), b(3:22), wide(0:3, -1:5), z(4:6), c(2:3))
  a = 1
  b = [(real(i, 8), i = 1, 20)]
  wide = reshape([(real(i, 8), i = 1, 28)], [4, 7])
  cells = reshape([(real(i, 8), i = 1, 24)], [2, 12])
  z = (1., 2.)
  c = 'abcde'
  call from_null
  call from_another
  call in_constructs
  call remapped
  call other_types
  call allocatable_moved
  call dummy(x)
  call pass
contains
  ! Sums over the device's bounds.
  real(8) function total()
    integer :: k
    total = 0
    !$acc parallel loop present(x) reduction(+:total)
    do k = lbound(x%p, 1), ubound(x%p, 1)
      total = total + x%p(k)
    end do
  end function

  subroutine from_null
    nullify (x%p)
    !$acc enter data copyin(x)
    x%p => b
    !$acc enter data copyin(b) attach(x%p)
    call equal('from null', plain(3, 22), 210d0)
    !$acc exit data delete(b) detach(x%p)
    !$acc exit data delete(x)
  end subroutine

  ! The region reads the device's descriptor, and not the bounds that the host knows.
  real(8) function plain(low, high)
    integer, value :: low, high
    integer :: k
    plain = 0
    !$acc parallel loop present(x) reduction(+:plain)
    do k = low, high
      plain = plain + x%p(k)
    end do
  end function

  subroutine from_another
    integer :: low, high
    x%p => a
    !$acc enter data copyin(x) copyin(a, b)
    !$acc enter data attach(x%p)
    call equal('a', plain(1, 10), 10d0)
    x%p => b
    !$acc enter data attach(x%p) async(1)
    !$acc wait(1)
    call equal('b', plain(3, 22), 210d0)
    !$acc serial present(x) copyout(low, high)
    low = lbound(x%p, 1)
    high = ubound(x%p, 1)
    !$acc end serial
    call equal('lower bound', low, 3)
    call equal('upper bound', high, 22)
    ! Backwards, every second.
    x%p => b(22:4:-2)
    !$acc enter data attach(x%p)
    call equal('backwards', plain(1, 10), sum(b(22:4:-2)))
    x%p(0:) => a
    !$acc enter data attach(x%p)
    call equal('from zero', plain(0, 9), 10d0)
    !$acc exit data detach(x%p) finalize
    !$acc exit data delete(a, b, x) finalize
  end subroutine

  subroutine in_constructs
    integer :: k
    real(8) :: s
    nullify (x%p)
    !$acc enter data copyin(x, b)
    x%p => b
    s = 0
    !$acc parallel loop default(present) attach(x%p) reduction(+:s)
    do k = 3, 22
      s = s + x%p(k)
    end do
    call equal('in a parallel construct', s, 210d0)
    x%p(101:) => b
    !$acc data attach(x%p)
    call equal('in a data construct', plain(101, 120), 210d0)
    !$acc end data
    !$acc exit data delete(x, b)
  end subroutine

  subroutine remapped
    integer :: k, l
    real(8) :: s
    nullify (x%q)
    !$acc enter data copyin(x, wide, cells)
    x%q => wide
    !$acc enter data attach(x%q)
    s = 0
    !$acc parallel loop collapse(2) present(x) reduction(+:s)
    do l = -1, 5
      do k = 0, 3
        s = s + x%q(k, l) * (k + 10 * l)
      end do
    end do
    call equal('two dimensions', s, sum([((wide(k, l) * (k + 10 * l), k = 0, 3), l = -1, 5)]))
    x%q => cells(2:2, 3:9:3)
    !$acc enter data attach(x%q)
    s = 0
    !$acc parallel loop present(x) reduction(+:s)
    do l = 1, 3
      s = s + x%q(1, l)
    end do
    call equal('section of two dimensions', s, sum(cells(2, 3:9:3)))
    !$acc exit data detach(x%q) finalize
    !$acc exit data delete(x, wide, cells)
  end subroutine

  subroutine other_types
    complex :: s
    integer :: k, n
    nullify (x%z, x%c)
    !$acc enter data copyin(x, z, c)
    x%z => z
    x%c => c
    !$acc enter data attach(x%z) attach(x%c)
    s = 0
    n = 0
    !$acc serial present(x) copy(s, n)
    do k = 4, 6
      s = s + x%z(k)
    end do
    do k = 2, 3
      if (x%c(k)(2:2) == 'b') n = n + 1
    end do
    !$acc end serial
    call equal('complex', real(s), 3.)
    call equal('characters', n, 2)
    !$acc exit data detach(x%z) detach(x%c)
    !$acc exit data delete(x, z, c)
  end subroutine

  subroutine allocatable_moved
    integer :: k
    real(8) :: s
    real(8), allocatable :: other(:)
    !$acc enter data copyin(x)
    allocate (other(7:11))
    other = 2
    call move_alloc(other, x%a)
    call acc_copyin(x%a)
    !$acc enter data attach(x%a)
    s = 0
    !$acc parallel loop present(x) reduction(+:s)
    do k = 7, 11
      s = s + x%a(k)
    end do
    call equal('allocatable', s, 10d0)
    !$acc exit data detach(x%a)
    call acc_delete(x%a)
    !$acc exit data delete(x)
  end subroutine

  subroutine dummy(d)
    type(box), intent(inout), target :: d
    integer :: k
    real(8) :: s
    nullify (d%p)
    !$acc enter data copyin(d, b)
    d%p => b
    !$acc enter data attach(d%p)
    s = 0
    !$acc parallel loop present(d) reduction(+:s)
    do k = 3, 22
      s = s + d%p(k)
    end do
    call equal('dummy', s, 210d0)
    !$acc exit data detach(d%p)
    !$acc exit data delete(d, b)
  end subroutine
end program
