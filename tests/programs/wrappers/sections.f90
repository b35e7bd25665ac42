! Several sections of one array in a directive, which GCC refuses: accord fc splits it, or puts them together.
program main
  use openacc
  implicit none
  integer :: a(100), m(10, 10), i, half
  half = 50
  a = [(i, i = 1, 100)]
  m = 1
  !$acc data copy(a(1:10), a(51:60)) &
  !$acc   copyin(m)
  if (.not. acc_is_present(a(51:60)) .or. acc_is_present(a(20:30))) stop 1
  !$acc data create(half)
  !$acc parallel loop present(a(51:60))
  do i = 51, 60
    a(i) = -i
  end do
  !$acc end data
  !$acc update self(a(51:52), a(60:60))
  if (a(52) /= -52 .or. a(53) /= 53 .or. a(60) /= -60) stop 2
  !$acc end data
  if (a(53) /= -53 .or. a(10) /= 10) stop 3

  !$acc enter data copyin(m(:, 1), M(:, 3)) create(a)
  if (.not. acc_is_present(m(:, 3)) .or. acc_is_present(m(:, 2))) stop 4
  !$acc parallel loop present(m(:, 3))
  do i = 1, 10
    m(i, 3) = i
  end do
  !$acc exit data copyout(m(:, 3)) delete(m(:, 1), a) finalize
  if (m(10, 3) /= 10 .or. acc_is_present(m(:, 1)) .or. acc_is_present(a)) stop 5

  !$acc parallel loop copyin(a(1:half)) copyout(a(half + 1:100))
  do i = 1, half
    a(half + i) = 2*a(i)
  end do
  if (a(100) /= 100 .or. a(51) /= 2 .or. a(1) /= 1) stop 6
  !$acc enter data copyin(m)
  !$acc parallel num_gangs(1) present(m(:, 1), m(:, 9:10))
  m(1, 1) = m(10, 3) + m(10, 10)
  !$acc end parallel
  !$acc exit data copyout(m)
  if (m(1, 1) /= 11) stop 7
  print '(a)', 'PASS'
end program
