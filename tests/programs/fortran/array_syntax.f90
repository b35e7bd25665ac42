! Array expressions in constructs: assignments, where, forall, intrinsics and constructors.
program main
  use check
  implicit none
  real(8) :: a(40), b(40), m(6, 6), v(6), w(6), s, big
  integer :: i, at(1)
  logical :: mask(40)
  a = [(real(i, 8), i = 1, 40)]
  !$acc kernels copy(a) copyout(b, mask)
  b = 2*a + 1
  a(1:20) = b(21:40)
  mask = a > 50
  where (mask) b = 0
  !$acc end kernels
  call equal('a(1)', a(1), 43d0)
  call equal('b', sum(b), sum([(merge(0d0, 2d0*i + 1, i >= 5 .and. i <= 20), i = 1, 40)]))
  call equal('mask', count(mask), 16)
  forall (i=1:6) m(i, :) = i
  v = [1d0, 0d0, 2d0, 0d0, 3d0, 0d0]
  !$acc serial copyin(m, v, a) copyout(w, s, big, at)
  w = matmul(m, v)
  s = dot_product(v, w) + sum(m(:, 2)) + product(v(1:5:2))
  big = maxval(a)
  at = maxloc(a)
  !$acc end serial
  call equal('w(6)', w(6), 36d0)
  call equal('s', s, 6d0*(1 + 2*3 + 3*5) + 21 + 6)
  call equal('big', big, 81d0)
  call equal('at', at(1), 20)
  !$acc serial copy(m)
  m = transpose(m)
  m(:, 1) = cshift(m(:, 1), 2)
  m(2, :) = [10d0, 20d0, 30d0, 40d0, 50d0, 60d0]
  !$acc end serial
  call equal('m(1, 5)', m(1, 5), 5d0)
  call equal('m(2, 6)', m(2, 6), 60d0)
  call pass()
end program
