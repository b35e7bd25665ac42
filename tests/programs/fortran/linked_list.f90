! A list whose nodes point to each other on the device: each pointer is attached when its target is there.
module lists
  implicit none
  type node
    integer :: value = 0
    type(node), pointer :: next => null()
  end type
end module
program main
  use check
  use lists
  implicit none
  type(node), pointer :: nodes(:)
  integer :: i, total, count
  allocate (nodes(7))
  do i = 1, 7
    nodes(i)%value = 10*i
    if (i < 7) nodes(i)%next => nodes(i + 1)
  end do
  !$acc enter data copyin(nodes)
  do i = 1, 6
    !$acc enter data attach(nodes(i)%next)
  end do
  total = 0
  count = 0
  !$acc serial present(nodes) copy(total, count)
  call walk(nodes(1), total, count)
  !$acc end serial
  call equal('total', total, 280)
  call equal('count', count, 7)
  do i = 1, 6
    !$acc exit data detach(nodes(i)%next)
  end do
  !$acc exit data copyout(nodes)
  call equal('the program''s pointer', nodes(1)%next%value, 20)
  call pass()
contains
  subroutine walk(first, total, count)
    !$acc routine seq
    type(node), intent(in), target :: first
    integer, intent(inout) :: total, count
    type(node), pointer :: at
    at => first
    do while (associated(at))
      total = total + at%value
      count = count + 1
      at => at%next
    end do
  end subroutine
end program
