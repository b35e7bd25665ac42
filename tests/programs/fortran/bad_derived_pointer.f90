! A component of what a pointer points to: a region that does not name it reaches it by way of the pointer's target, which has to be present too.
! BUILD gcc-before=13
! EXPECT exit=1
! EXPECT stderr=/given pointers that nothing maps: x .*enter data copyin\(x\) ahead of the clauses that name x%a/
! EXPECT device-memory
program main
  use check
  implicit none
  type box
    integer :: n
    integer :: w(10) = 2
    integer, allocatable :: v(:)
  end type
  type(box), pointer :: x
  integer :: i
  allocate (x)
  allocate (x%v(10))
  x%v = 1
  ! As it is right.
  !$acc enter data copyin(x)
  !$acc enter data copyin(x%v)
  !$acc parallel loop present(x%v)
  do i = 1, 10
    x%v(i) = x%v(i) + i
  end do
  !$acc exit data copyout(x%v)
  !$acc exit data delete(x)
  call equal('both present', sum(x%v), 65)
  ! The region names it.
  !$acc enter data copyin(x%v)
  !$acc parallel loop present(x%v)
  do i = 1, 10
    x%v(i) = x%v(i) + i
  end do
  !$acc exit data copyout(x%v)
  call equal('named', sum(x%v), 120)
  !$acc data copy(x%w)
  !$acc parallel loop
  do i = 1, 10
    x%w(i) = x%w(i) + i
  end do
  !$acc end data
  call pass()
end program
