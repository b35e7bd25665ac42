! private and firstprivate of automatic arrays, dummies, allocatable arrays and derived types, whose sizes are known at run time only.
! GCC's code for nvptx can't make room for such an array.
! BUILD offload=no
module work
  implicit none
  type state
    real(8) :: x(4)
    integer :: n
  end type
contains
  subroutine sort_rows(a, n, m)
    integer, intent(in) :: n, m
    integer, intent(inout) :: a(n, m)
    integer :: row(n), i, j, k, t
    !$acc parallel loop gang private(row, t) copy(a)
    do j = 1, m
      do i = 1, n
        row(i) = a(i, j)
      end do
      do i = 2, n
        t = row(i)
        k = i - 1
        do while (k >= 1)
          if (row(k) <= t) exit
          row(k + 1) = row(k)
          k = k - 1
        end do
        row(k + 1) = t
      end do
      do i = 1, n
        a(i, j) = row(i)
      end do
    end do
  end subroutine
  subroutine march(s0, out, n)
    type(state), intent(in) :: s0
    integer, intent(in) :: n
    real(8), intent(out) :: out(n)
    type(state) :: s
    integer :: i, k
    s = s0
    !$acc parallel loop gang firstprivate(s) copyout(out)
    do i = 1, n
      !$acc loop seq
      do k = 1, s%n
        out(i) = s%x(k)*i
      end do
      out(i) = s%x(1) + s%x(4)*i
    end do
  end subroutine
end module
program main
  use check
  use work
  implicit none
  integer :: a(7, 20), b(7), i, j
  real(8) :: out(15), first(3)
  type(state) :: s
  do j = 1, 20
    a(:, j) = [(mod(i*j*5 + 3, 23), i = 1, 7)]
  end do
  b = a(:, 9)
  call sort_rows(a, 7, 20)
  do j = 1, 20
    call equal('in order', count(a(2:7, j) < a(1:6, j)), 0)
  end do
  call equal('the same', sum(a(:, 9)**2), sum(b**2))
  s%x = [1, 2, 3, 4]
  s%n = 2
  call march(s, out, 15)
  call equal('out', out(15), 61d0)
  first = [10, 20, 30]
  out = 0
  !$acc parallel loop gang firstprivate(first) copy(out) num_gangs(5)
  do i = 1, 15
    out(i) = sum(first)
  end do
  call equal('each has all', sum(out), 15*60d0)
  call equal('and leaves it', sum(first), 60d0)
  call pass()
end program
