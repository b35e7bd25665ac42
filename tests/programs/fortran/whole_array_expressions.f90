! Whole-array code in kernels constructs, as it is before anybody writes loops: intrinsics of every sort, masks, shapes and sections of
! what is present.
program main
  use check
  implicit none
  real(8) :: a(8, 6), b(6, 8), c(8, 8), d(8, 6), v(8), s, t
  integer :: where_(2), i, j, k(6)
  logical :: mask(8, 6)
  do j = 1, 6
    do i = 1, 8
      a(i, j) = mod(5*i + 3*j, 11)
    end do
  end do
  !$acc data copyin(a) copyout(b, c, d, v, k, mask, where_) copy(s, t)
  !$acc kernels
  b = transpose(a)
  c = matmul(a, b)
  v = sum(a, dim=2)
  k = maxloc(a, dim=1)
  mask = a > 5
  s = dot_product(a(:, 1), a(:, 2))
  t = maxval(a, mask=a < 9)
  !$acc end kernels
  !$acc kernels
  where (mask)
    d = sqrt(a)
  elsewhere (a < 2)
    d = -1
  elsewhere
    d = a
  end where
  d(2:8:2, :) = -d(2:8:2, :)
  where_ = minloc(c)
  forall (i = 1:8, j = 1:8, i /= j) c(i, j) = c(i, j)/2
  !$acc end kernels
  !$acc end data
  call equal('transpose', count(b /= transpose(a)), 0)
  call equal('sum', count(v /= sum(a, dim=2)), 0)
  call equal('maxloc', count(k /= maxloc(a, dim=1)), 0)
  call equal('dot', s, dot_product(a(:, 1), a(:, 2)))
  call equal('maxval', t, 8d0)
  call equal('mask', count(mask), count(a > 5))
  call equal('diagonal', c(3, 3), sum(a(3, :)**2))
  call equal('others', c(3, 4), sum(a(3, :)*a(4, :))/2)
  call equal('minloc', sum(abs(where_ - minloc(matmul(a, transpose(a))))), 0)
  do j = 1, 6
    do i = 1, 8
      s = a(i, j)
      if (a(i, j) > 5) then
        s = sqrt(a(i, j))
      else if (a(i, j) < 2) then
        s = -1
      end if
      if (mod(i, 2) == 0) s = -s
      call equal('where', abs(d(i, j) - s) < 1d-14, .true.)
    end do
  end do
  call pass()
end program
