! data regions over parts of arrays: leading and trailing planes, one element, nested parts, and each updated by itself.
program main
  use check
  implicit none
  integer :: a(6, 5, 4), i, j, k
  a = 0
  !$acc data copy(a(:, :, 2:3))
  !$acc parallel loop collapse(3) present(a(:, :, 2:3))
  do k = 2, 3
    do j = 1, 5
      do i = 1, 6
        a(i, j, k) = 100*k + 10*j + i
      end do
    end do
  end do
  !$acc update self(a(:, 2:4, 3))
  call equal('a(6, 4, 3)', a(6, 4, 3), 346)
  call equal('a(6, 5, 3)', a(6, 5, 3), want(0, 356))
  !$acc data present(a(:, :, 2))
  !$acc parallel num_gangs(1) present(a(2:3, 1, 2))
  a(2, 1, 2) = -1
  !$acc end parallel
  !$acc end data
  !$acc end data
  call equal('a(2, 1, 2)', a(2, 1, 2), -1)
  call equal('a(3, 1, 2)', a(3, 1, 2), 213)
  call equal('untouched', sum(a(:, :, 1)) + sum(a(:, :, 4)), 0)
  !$acc data copy(a(3:3, 3:3, 3:3))
  !$acc parallel num_gangs(1) present(a(3:3, 3:3, 3:3))
  a(3, 3, 3) = 5
  !$acc end parallel
  !$acc end data
  call equal('one element', a(3, 3, 3), 5)
  call equal('its neighbour', a(4, 3, 3), 334)
  call pass()
end program
