! Matrix products: a reduction at vector level in each element, a transpose, and a triangular loop.
program main
  use check
  implicit none
  integer, parameter :: n = 24, m = 18, l = 31
  real(8) :: a(n, l), b(l, m), c(n, m), t(m, n), s
  integer :: i, j, k
  do k = 1, l
    do i = 1, n
      a(i, k) = mod(i*k, 7)
    end do
    do j = 1, m
      b(k, j) = mod(k + j, 5)
    end do
  end do
  !$acc data copyin(a, b) copyout(c, t)
  !$acc parallel loop gang collapse(2) private(s)
  do j = 1, m
    do i = 1, n
      s = 0
      !$acc loop vector reduction(+:s)
      do k = 1, l
        s = s + a(i, k)*b(k, j)
      end do
      c(i, j) = s
    end do
  end do
  !$acc parallel loop collapse(2) present(c, t)
  do j = 1, m
    do i = 1, n
      t(j, i) = c(i, j)
    end do
  end do
  !$acc parallel loop gang present(t)
  do j = 2, m
    !$acc loop vector
    do i = 1, j - 1
      t(j, i) = -t(j, i)
    end do
  end do
  !$acc end data
  do j = 1, m
    do i = 1, n
      call equal('c', c(i, j), dot_product(a(i, :), b(:, j)))
      call equal('t', t(j, i), merge(-c(i, j), c(i, j), i < j))
    end do
  end do
  call pass()
end program
