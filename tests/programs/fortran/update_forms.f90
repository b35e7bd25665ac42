! update: several variables, sections, members, if_present, async, and of what a dummy argument names (2.14.4).
module changes
  implicit none
  type box
    integer :: n
    real(8), allocatable :: v(:)
  end type
contains
  subroutine bring(x)
    real(8), intent(inout) :: x(:)
    !$acc update self(x(2:3))
  end subroutine
  subroutine give(x, lo, hi)
    integer, intent(in) :: lo, hi
    real(8), intent(inout) :: x(*)
    !$acc update device(x(lo:hi))
  end subroutine
end module
program main
  use check
  use changes
  implicit none
  real(8) :: a(10), b(10), absent(10)
  integer :: s, i
  type(box) :: x
  a = 1
  b = 2
  s = 3
  absent = 4
  !$acc enter data copyin(a, b, s)
  !$acc parallel loop present(a, b, s)
  do i = 1, 10
    a(i) = a(i) + i
    b(i) = b(i) + i*s
  end do
  call bring(a)
  call equal('a(1)', a(1), want(1d0, 2d0))
  call equal('a(3)', a(3), 4d0)
  a(5:6) = -1
  call give(a, 5, 6)
  !$acc update self(a, b(8:)) self(s)
  call equal('a(4)', a(4), 5d0)
  call equal('a(6)', a(6), -1d0)
  call equal('b(7)', b(7), want(2d0, 23d0))
  call equal('b(8)', b(8), 26d0)
  !$acc update self(absent) if_present
  !$acc update device(absent, s) if_present
  call equal('absent', absent(1), 4d0)
  b = 100
  !$acc update device(b) async(4)
  !$acc parallel loop present(b) async(4)
  do i = 1, 10
    b(i) = b(i) + 1
  end do
  !$acc update self(b) async(4)
  !$acc wait(4)
  call equal('b', sum(b), 1010d0)
  !$acc exit data delete(a, b, s)
  x%n = 4
  allocate (x%v(4))
  x%v = 0
  !$acc enter data copyin(x)
  !$acc enter data copyin(x%v)
  x%n = 3
  x%v = 8
  !$acc update device(x%n, x%v)
  !$acc parallel loop present(x)
  do i = 1, 4
    x%v(i) = x%v(i) + x%n
  end do
  !$acc update self(x%v)
  call equal('x%v', sum(x%v), 44d0)
  !$acc exit data delete(x%v)
  !$acc exit data delete(x)
  call pass()
end program
