! Regions in select type and on the members of what it has selected.
program main
  use check
  implicit none
  type base
    integer :: n
  end type
  type, extends(base) :: wide
    real(8) :: x(20)
  end type
  type, extends(base) :: deep
    integer :: k(5, 5)
  end type
  class(base), allocatable :: o
  allocate (wide :: o)
  call fill()
  deallocate (o)
  allocate (deep :: o)
  call fill()
  call pass()
contains
  subroutine fill()
    integer :: i
    o%n = 3
    select type (o)
    type is (wide)
      call work_wide(o)
      call equal('x', sum(o%x), 210d0 + 60)
    type is (deep)
      call work_deep(o)
      call equal('k', sum(o%k), 75)
    class default
      call failed('the type')
    end select
  end subroutine
  subroutine work_wide(w)
    type(wide), intent(inout) :: w
    integer :: i
    !$acc parallel loop copy(w)
    do i = 1, 20
      w%x(i) = i + w%n
    end do
  end subroutine
  subroutine work_deep(d)
    type(deep), intent(inout) :: d
    integer :: i, j
    !$acc parallel loop collapse(2) copy(d)
    do j = 1, 5
      do i = 1, 5
        d%k(i, j) = d%n
      end do
    end do
  end subroutine
end program
