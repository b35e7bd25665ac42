! Types with kind parameters: GCC keeps members whose bounds are parameters on the heap, so that they are mapped like allocatable
! ones (2.6.4).
module vectors
  implicit none
  type vector(k, n)
    integer, kind :: k = 8
    integer, kind :: n = 16
    real(k) :: x(n)
    integer :: used
  end type
end module
program main
  use check
  use vectors
  implicit none
  type(vector(8, 12)) :: a
  type(vector(4, 20)) :: b(3)
  integer :: i, j
  a%x = 1
  a%used = 10
  do j = 1, 3
    b(j)%x = j
    b(j)%used = 20 - j
  end do
  !$acc enter data copyin(a)
  !$acc enter data copyin(a%x)
  !$acc parallel loop present(a)
  do i = 1, a%used
    a%x(i) = a%x(i) + i
  end do
  !$acc exit data copyout(a%x)
  !$acc exit data delete(a)
  !$acc enter data copyin(b)
  do j = 1, 3
    !$acc enter data copyin(b(j)%x)
  end do
  !$acc parallel loop collapse(2) present(b)
  do j = 1, 3
    do i = 1, 20
      if (i <= b(j)%used) b(j)%x(i) = b(j)%x(i)*2
    end do
  end do
  do j = 1, 3
    !$acc exit data copyout(b(j)%x)
  end do
  !$acc exit data delete(b)
  call equal('a', sum(a%x), 12d0 + 55)
  call equal('b', sum(b(3)%x), 17*6.0 + 3*3)
  call pass()
end program
