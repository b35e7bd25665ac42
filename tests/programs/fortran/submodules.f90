! Regions and routines in a submodule, with data of its module.
module front
  implicit none
  integer :: base = 40
  !$acc declare copyin(base)
  interface
    module subroutine fill(a)
      integer, intent(out) :: a(:)
    end subroutine
    module integer function plus(i)
      !$acc routine seq
      integer, intent(in) :: i
    end function
  end interface
end module
submodule(front) back
  implicit none
contains
  module procedure fill
    integer :: i
    !$acc parallel loop copyout(a)
    do i = 1, size(a)
      a(i) = plus(i)
    end do
  end procedure
  module procedure plus
    plus = base + i
  end procedure
end submodule
program main
  use check
  use front
  implicit none
  integer :: a(12)
  call fill(a)
  call equal('a', sum(a), 480 + 78)
  call pass()
end program
