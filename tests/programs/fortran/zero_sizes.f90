! Arrays without elements, and sections without elements: nothing happens, and nothing fails.
module empties
  implicit none
contains
  integer function used(a) result(r)
    integer, intent(in) :: a(:)
    integer :: i
    r = 0
    !$acc parallel loop copyin(a) reduction(+:r)
    do i = 1, size(a)
      r = r + a(i)
    end do
  end function
  subroutine automatic(n)
    integer, intent(in) :: n
    integer :: w(n), i
    !$acc data create(w)
    !$acc parallel loop
    do i = 1, n
      w(i) = i
    end do
    !$acc update self(w)
    !$acc end data
  end subroutine
end module
program main
  use check
  use empties
  implicit none
  integer, allocatable :: a(:), u(:)
  integer :: b(10), i, k
  allocate (a(0))
  b = 1
  !$acc parallel loop copy(a)
  do i = 1, size(a)
    a(i) = 1
  end do
  !$acc enter data copyin(a)
  !$acc parallel loop present(a)
  do i = 1, size(a)
    a(i) = 1
  end do
  !$acc update self(a)
  !$acc exit data copyout(a)
  call equal('used(a)', used(a), 0)
  k = 0
  call equal('used(b(1:0))', used(b(1:k)), 0)
  call equal('used(b(3:5))', used(b(3:5)), 3)
  call automatic(0)
  call automatic(3)
  ! Not allocated at all.
  !$acc data copyin(u)
  i = 5
  !$acc parallel copy(i)
  i = i + 1
  !$acc end parallel
  !$acc end data
  call equal('i', i, 6)
  !$acc parallel copy(b(4:k))
  !$acc end parallel
  call pass()
end program
