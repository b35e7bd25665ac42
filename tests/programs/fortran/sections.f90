! Array sections in clauses, updates and presence.
program main
  use check
  implicit none
  integer, allocatable :: a(:), b(:, :)
  integer :: i, j
  allocate (a(100), b(4, 6))
  a = 0
  b = 0
  !$acc data copyin(b(:, 2:5))
  call equal('present', acc_is_present(b(:, 2:5)), .true.)
  call equal('whole', acc_is_present(b), want(.false., .true.))
  !$acc parallel loop present(b(:, 2:5))
  do j = 2, 5
    do i = 1, 4
      b(i, j) = 10*i + j
    end do
  end do
  !$acc update self(b(:, 3:4))
  !$acc end data
  call equal('b(1, 3)', b(1, 3), 13)
  call equal('b(4, 4)', b(4, 4), 44)
  call equal('b(1, 2)', b(1, 2), want(0, 12))
  !$acc enter data create(a)
  !$acc parallel loop present(a)
  do i = 1, 100
    a(i) = i
  end do
  !$acc update self(a(5:10))
  call equal('a(4)', a(4), want(0, 4))
  call equal('a(5)', a(5), 5)
  call equal('a(10)', a(10), 10)
  call equal('a(11)', a(11), want(0, 11))
  !$acc exit data copyout(a) finalize
  call equal('a(100)', a(100), 100)
  call pass()
end program
