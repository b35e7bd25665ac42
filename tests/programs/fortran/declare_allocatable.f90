! Allocatable module variables in declare create: allocated, used by regions and routines, given up, and allocated anew (2.13.2).
module grid
  implicit none
  real(8), allocatable :: u(:), m(:, :)
  !$acc declare create(u, m)
contains
  real(8) function at(i)
    !$acc routine seq
    integer, intent(in) :: i
    at = u(i)
  end function
  subroutine start(n)
    integer, intent(in) :: n
    integer :: i
    allocate (u(n), m(0:n - 1, 2))
    u = [(real(i, 8), i = 1, n)]
    m = 1
    !$acc enter data copyin(u, m)
  end subroutine
  subroutine finish()
    !$acc exit data delete(u, m)
    deallocate (u, m)
  end subroutine
  subroutine double()
    integer :: i
    !$acc parallel loop present(u)
    do i = 1, size(u)
      u(i) = 2*u(i)
    end do
  end subroutine
end module
program main
  use check
  use grid
  implicit none
  integer :: i, round, n
  real(8) :: s
  do round = 1, 3
    n = 10*round
    call start(n)
    call double()
    s = 0
    !$acc parallel loop reduction(+:s) present(u, m)
    do i = 1, n
      s = s + at(i)*m(i - 1, 2)
    end do
    call equal('s', s, n*(n + 1d0))
    call equal('on the host', u(n), want(1d0*n, 2d0*n))
    u(1) = -5
    !$acc update device(u(1:1))
    call double()
    !$acc update self(u)
    call equal('u(1)', u(1), -10d0)
    call equal('u(n)', u(n), 4d0*n)
    call finish()
  end do
  call pass()
end program
