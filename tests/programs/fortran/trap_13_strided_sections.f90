! Sections that are not contiguous become one span, which may run past the array: the copy is cut to what is present.
program main
  use check
  implicit none
  integer, allocatable :: b(:, :), v(:)
  integer :: i, j
  allocate (b(4, 6))
  b = 0
  !$acc data copyin(b)
  !$acc parallel loop present(b)
  do j = 1, 6
    do i = 1, 4
      b(i, j) = 10*i + j
    end do
  end do
  !$acc update self(b(2, :))
  do j = 1, 6
    call equal('b(2, j)', b(2, j), 20 + j)
  end do
  b(3, :) = -3
  !$acc update device(b(3, 1:6:2))
  !$acc update self(b(1:4:3, 2:5))
  call equal('b(1, 2)', b(1, 2), 12)
  call equal('b(4, 5)', b(4, 5), 45)
  !$acc end data
  ! By stride 3 from the second element on: beyond the end by one, and longer than the array.
  allocate (v(20))
  v = 0
  !$acc enter data copyin(v)
  !$acc parallel loop present(v)
  do i = 1, 20
    v(i) = i
  end do
  !$acc update self(v(2:20:3))
  do i = 2, 20, 3
    call equal('v(i)', v(i), i)
  end do
  v(20) = -20
  !$acc update device(v(2:20:3))
  if (separate()) v(20) = 0
  !$acc update self(v(20:20))
  call equal('v(20)', v(20), -20)
  !$acc exit data delete(v)
  call pass()
end program
