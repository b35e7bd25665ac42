! A region with more arguments than travel in one launch: arrays, allocatable dummies and scalars.
module wide
  implicit none
contains
  subroutine all_of(a, b, c, d, e, f, g, h, p, q, r, s, t, u, v, w)
    integer, allocatable, intent(inout) :: a(:), b(:, :), c(:, :, :), d(:), e(:, :), f(:, :, :), g(:), h(:, :)
    integer, pointer, intent(inout) :: p(:), q(:, :), r(:, :, :), s(:), t(:, :), u(:, :, :), v(:), w(:, :)
    integer :: k1, k2, k3, k4, k5, k6, k7, k8
    character(200) :: text
    real(8) :: table(25), other(25), third(25)
    k1 = 1; k2 = 2; k3 = 3; k4 = 4; k5 = 5; k6 = 6; k7 = 7; k8 = 8
    text = 'abc'
    table = 1; other = 2; third = 3
    !$acc serial firstprivate(text, table, other, third)
    a(1) = k1 + int(table(3)); b(1, 1) = k2 + int(other(25)); c(1, 1, 1) = k3 + int(third(1)); d(1) = k4
    e(1, 1) = k5; f(1, 1, 1) = k6; g(1) = k7; h(1, 1) = k8
    p(2) = a(1); q(2, 2) = b(1, 1); r(2, 2, 2) = c(1, 1, 1); s(2) = d(1)
    t(2, 2) = e(1, 1); u(2, 2, 2) = f(1, 1, 1); v(2) = g(1); w(2, 2) = h(1, 1) + iachar(text(2:2))
    !$acc end serial
  end subroutine
end module
program main
  use check
  use wide
  implicit none
  integer, allocatable :: a(:), b(:, :), c(:, :, :), d(:), e(:, :), f(:, :, :), g(:), h(:, :)
  integer, pointer :: p(:), q(:, :), r(:, :, :), s(:), t(:, :), u(:, :, :), v(:), w(:, :)
  allocate (a(2), b(2, 2), c(2, 2, 2), d(2), e(2, 2), f(2, 2, 2), g(2), h(2, 2))
  allocate (p(2), q(2, 2), r(2, 2, 2), s(2), t(2, 2), u(2, 2, 2), v(2), w(2, 2))
  a = 0; b = 0; c = 0; d = 0; e = 0; f = 0; g = 0; h = 0
  p = 0; q = 0; r = 0; s = 0; t = 0; u = 0; v = 0; w = 0
  call all_of(a, b, c, d, e, f, g, h, p, q, r, s, t, u, v, w)
  call equal('p', p(2), 2)
  call equal('q', q(2, 2), 4)
  call equal('r', r(2, 2, 2), 6)
  call equal('s', s(2), 4)
  call equal('t', t(2, 2), 5)
  call equal('u', u(2, 2, 2), 6)
  call equal('v', v(2), 7)
  call equal('w', w(2, 2), 106)
  call equal('h', sum(h), 8)
  call pass()
end program
