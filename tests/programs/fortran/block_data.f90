! Blocks of common that BLOCK DATA fills: named in clauses, seen under other names and shapes by other procedures, kept on the device
! while the host's copies change.
block data initial
  implicit none
  integer :: n
  real(8) :: x(20), y(4, 5)
  common /grid/ n, x, y
  data n /20/, x /20*1.5d0/, y /20*2d0/
end block data
module steps
  implicit none
contains
  subroutine advance()
    integer :: n, i
    real(8) :: all_(40)
    common /grid/ n, all_
    !$acc parallel loop present(all_)
    do i = 1, 40
      all_(i) = all_(i) + i
    end do
  end subroutine
  subroutine columns()
    integer :: n, i, j
    real(8) :: x(20), y(4, 5)
    common /grid/ n, x, y
    !$acc parallel loop collapse(2) present(y)
    do j = 1, 5
      do i = 1, 4
        y(i, j) = y(i, j)*j
      end do
    end do
  end subroutine
end module
program main
  use check
  use steps
  implicit none
  integer :: n, i, j
  real(8) :: x(20), y(4, 5)
  common /grid/ n, x, y
  integer :: flags(10)
  common flags
  call equal('n', n, 20)
  call whole()
  call equal('x', x(20), 21.5d0)
  do j = 1, 5
    do i = 1, 4
      call equal('y', y(i, j), j*(2d0 + 20 + i + 4*(j - 1)))
    end do
  end do
  flags = 0
  call blank()
  call equal('blank common', sum(flags), 55)
  call pass()
contains
  subroutine whole()
    integer :: n
    real(8) :: all_(40)
    common /grid/ n, all_
    !$acc data copy(all_)
    call advance()
    call columns()
    !$acc end data
  end subroutine
  subroutine blank()
    integer :: flags(10), i
    common flags
    !$acc parallel loop copy(flags)
    do i = 1, 10
      flags(i) = flags(i) + i
    end do
  end subroutine
end program
