! The data routines for parts of arrays: contiguous sections, columns, single elements, members, and contiguous
! pointers with other bounds. (Of pointers that need not be contiguous GCC's module passes a copy.)
program main
  use check
  implicit none
  type point
    real(8) :: x, y(3)
  end type
  integer, target :: a(10, 8)
  integer, pointer, contiguous :: p(:)
  type(point) :: q(4)
  integer :: k
  a = reshape([(k, k = 1, 80)], [10, 8])
  call acc_copyin(a(:, 3:5))
  call equal('a column in it', acc_is_present(a(:, 4)), .true.)
  call equal('an element in it', acc_is_present(a(10, 5)), .true.)
  call equal('one before', acc_is_present(a(10, 2)), want(.false., .true.))
  call equal('one behind', acc_is_present(a(1, 6)), want(.false., .true.))
  call equal('more than is there', acc_is_present(a(:, 3:6)), want(.false., .true.))
  call on_device(30, a(:, 3:5))
  call acc_update_self(a(:, 4:4))
  call equal('updated', a(1, 4), 1031)
  call equal('not updated', a(1, 3), want(21, 1021))
  a(2, 5) = 7
  call acc_update_device(a(2:2, 5))
  call acc_copyout(a(:, 3:5))
  call equal('copied out', a(1, 3), 1021)
  call equal('brought before', a(2, 5), 7)
  call equal('beside', a(10, 2), 20)
  p(-4:) => a(1:10, 1)
  call acc_create(p)
  call equal('by the pointer', acc_is_present(p(-4:0)), .true.)
  call acc_update_device(p)
  call on_device(10, p)
  call acc_copyout(p)
  call equal('under its own name', a(10, 1), 1010)
  do k = 1, 4
    q(k)%x = k
    q(k)%y = 10*k
  end do
  call acc_copyin(q(2)%y)
  call acc_copyin(q(3)%x)
  call equal('a member', acc_is_present(q(2)%y(3)), .true.)
  call equal('not its neighbour', acc_is_present(q(2)%x), want(.false., .true.))
  q(2)%y = 0
  q(3)%x = 0
  call acc_copyout(q(2)%y)
  call acc_copyout(q(3)%x)
  call equal('y', sum(q(2)%y), merge(60d0, 0d0, separate()))
  call equal('x', q(3)%x, merge(3d0, 0d0, separate()))
  call equal('others', q(3)%y(1), 30d0)
  call pass()
contains
  subroutine on_device(n, v)
    integer, intent(in) :: n
    integer, intent(inout) :: v(n)
    integer :: i
    !$acc parallel loop present(v)
    do i = 1, n
      v(i) = v(i) + 1000
    end do
  end subroutine
end program
