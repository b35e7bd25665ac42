! Reductions at the levels of gangs, workers and vectors, nested and of several variables (2.9.11).
program main
  use check
  implicit none
  integer :: a(16, 8, 10), rows(10), total, i, j, k, most, s
  do k = 1, 10
    do j = 1, 8
      do i = 1, 16
        a(i, j, k) = mod(i*j*k, 11)
      end do
    end do
  end do
  total = 5
  most = -1
  !$acc parallel loop gang copyin(a) copyout(rows) private(s) reduction(+:total) reduction(max:most)
  do k = 1, 10
    s = 0
    !$acc loop worker reduction(+:s) reduction(max:most)
    do j = 1, 8
      !$acc loop vector reduction(+:s) reduction(max:most)
      do i = 1, 16
        s = s + a(i, j, k)
        most = max(most, a(i, j, k)*k)
      end do
    end do
    rows(k) = s
    total = total + s
  end do
  do k = 1, 10
    call equal('row', rows(k), sum(a(:, :, k)))
  end do
  call equal('total', total, 5 + sum(a))
  call equal('most', most, maxval([(maxval(a(:, :, k))*k, k = 1, 10)]))
  call pass()
end program
