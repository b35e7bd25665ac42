! Two modules with private procedures and variables of the same names, and regions at the same lines of their code.
module one
  implicit none
  private
  integer :: state(8) = 1
  !$acc declare copyin(state)
  public :: run_one
contains
  integer function step(i)
    !$acc routine seq
    integer, intent(in) :: i
    step = state(i) + 10
  end function
  integer function run_one() result(r)
    integer :: i
    r = 0
    !$acc parallel loop reduction(+:r)
    do i = 1, 8
      r = r + step(i)
    end do
  end function
end module
module two
  implicit none
  private
  integer :: state(8) = 2
  !$acc declare copyin(state)
  public :: run_two
contains
  integer function step(i)
    !$acc routine seq
    integer, intent(in) :: i
    step = state(i) + 100
  end function
  integer function run_two() result(r)
    integer :: i
    r = 0
    !$acc parallel loop reduction(+:r)
    do i = 1, 8
      r = r + step(i)
    end do
  end function
end module
program main
  use check
  use one
  use two
  implicit none
  call equal('one', run_one(), 88)
  call equal('two', run_two(), 816)
  call pass()
end program
