! Types with pointer members: to arrays, to parts of arrays, to each other; attached, and moved to another target.
module nodes
  implicit none
  type node
    integer :: key = 0
    integer, pointer :: v(:) => null()
  end type
contains
  subroutine add(x, by)
    type(node), intent(inout) :: x
    integer, intent(in) :: by
    integer :: i
    !$acc parallel loop present(x)
    do i = 1, size(x%v)
      x%v(i) = x%v(i) + by + x%key
    end do
  end subroutine
end module
program main
  use check
  use nodes
  implicit none
  integer, target :: a(12), b(5)
  type(node) :: x
  integer :: i
  a = [(i, i = 1, 12)]
  b = 0
  x%key = 1000
  x%v => a
  !$acc enter data copyin(a, b)
  !$acc enter data copyin(x)
  !$acc enter data copyin(x%v)
  call add(x, 1)
  !$acc exit data delete(x%v)
  ! Another target: attached anew.
  x%v => b
  !$acc enter data copyin(x%v)
  call add(x, 5)
  !$acc exit data delete(x%v)
  x%v => a(4:9)
  !$acc enter data copyin(x%v)
  call add(x, 2)
  !$acc exit data delete(x%v)
  !$acc exit data delete(x)
  !$acc exit data copyout(a, b)
  call equal('b', sum(b), 5*1005)
  do i = 1, 12
    call equal('a(i)', a(i), i + 1001 + merge(1002, 0, i >= 4 .and. i <= 9))
  end do
  call equal('the program''s pointer', x%v(1), 4 + 2003)
  call pass()
end program
