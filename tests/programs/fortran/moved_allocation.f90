! Arrays that are allocated anew on assignment, moved by move_alloc, or allocated from a source: presence belongs to memory.
program main
  use check
  implicit none
  integer, allocatable :: a(:), b(:), c(:, :)
  integer :: i
  a = [1, 2, 3]
  !$acc enter data copyin(a)
  !$acc parallel loop present(a)
  do i = 1, 3
    a(i) = a(i)*10
  end do
  call move_alloc(a, b)
  call equal('b is there', acc_is_present(b), .true.)
  !$acc parallel loop present(b)
  do i = 1, 3
    b(i) = b(i) + i
  end do
  !$acc exit data copyout(b)
  call equal('b', sum(b), 66)
  b = [(i, i = 1, 100)]
  !$acc data copy(b)
  !$acc parallel loop
  do i = 1, size(b)
    b(i) = -b(i)
  end do
  !$acc end data
  call equal('b anew', sum(b), -5050)
  allocate (c, source=reshape(b, [10, 10]))
  !$acc parallel loop copy(c)
  do i = 1, 10
    c(i, 1) = 0
  end do
  call equal('c', sum(c), -5050 + 55)
  allocate (a, mold=b)
  !$acc parallel loop copyout(a)
  do i = 1, size(a)
    a(i) = 1
  end do
  call equal('a', sum(a), 100)
  call pass()
end program
