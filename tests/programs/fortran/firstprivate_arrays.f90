! Allocatable arrays and pointers in firstprivate clauses: GCC passes their descriptors alone. The region finds the array where it is
! present, and else a copy of it for this launch (2.5.14).
module arrays
  implicit none
  real(8), allocatable :: shared(:)
end module

program main
  use check
  use arrays
  implicit none
  real(8), allocatable :: a(:)
  real(8), pointer :: p(:, :)
  integer :: i
  allocate (a(3:22), p(0:4, 5), shared(7))
  a = [(real(i, 8), i = 1, 20)]
  p = reshape([(real(i, 8), i = 1, 25)], [5, 5])
  shared = 2
  call allocatable_dummy(a)
  call pointer_dummy(p)
  call others
  call pass
contains
  subroutine allocatable_dummy(d)
    real(8), allocatable, intent(inout) :: d(:)
    real(8) :: s
    integer :: i
    s = 0
    !$acc data copy(d)
    !$acc parallel loop firstprivate(d) reduction(+:s)
    do i = 3, 22
      s = s + d(i)
    end do
    !$acc end data
    call equal('present', s, 210d0)
    s = 0
    !$acc parallel loop firstprivate(d) reduction(+:s)
    do i = lbound(d, 1), ubound(d, 1)
      s = s + d(i)
    end do
    call equal('absent', s, 210d0)
    s = 0
    !$acc parallel loop firstprivate(d) reduction(+:s) async(1)
    do i = 3, 22
      s = s + d(i)
    end do
    !$acc wait(1)
    call equal('in a queue', s, 210d0)
  end subroutine

  subroutine pointer_dummy(d)
    real(8), pointer, intent(in) :: d(:, :)
    real(8), pointer :: part(:, :)
    real(8) :: s
    integer :: i, j
    s = 0
    !$acc data copyin(d)
    !$acc parallel loop collapse(2) firstprivate(d) reduction(+:s)
    do j = 1, 5
      do i = 0, 4
        s = s + d(i, j)
      end do
    end do
    !$acc end data
    call equal('pointer', s, 325d0)
    part => d(4:0:-2, 2:4)
    s = 0
    !$acc parallel loop collapse(2) firstprivate(part) reduction(+:s)
    do j = 1, 3
      do i = 1, 3
        s = s + part(i, j) * i
      end do
    end do
    call equal('section', s, sum([((part(i, j) * i, i = 1, 3), j = 1, 3)]))
  end subroutine

  subroutine others
    real(8), allocatable :: local(:), none(:)
    real(8) :: s
    integer :: i, n
    allocate (local(10), none(0))
    local = 4
    s = 0
    !$acc data copyin(local, shared)
    !$acc parallel loop firstprivate(local, shared) reduction(+:s)
    do i = 1, 7
      s = s + local(i) * shared(i)
    end do
    !$acc end data
    call equal('local and of a module', s, 56d0)
    n = -1
    !$acc serial firstprivate(none) copy(n)
    n = size(none)
    !$acc end serial
    call equal('of no elements', n, 0)
  end subroutine
end program
