! Statements of arrays in kernels constructs: sections, strides, overlaps, where, forall, do concurrent, intrinsics.
module statements
  implicit none
  integer, parameter :: n = 40, m = 12
  type cell
    integer :: scale
    real(8) :: x(n)
  end type
contains
  subroutine device(a, b, c, d, w, idx, s, t, count_of, l1, l2, mask)
    real(8) :: a(n), b(0:n-1), c(n, m), d(n, m), w(-3:n), s, t
    integer :: idx(n), i, j, count_of
    logical :: l1, l2, mask(n)
    !$acc kernels
    a = a*2 + 1
    w(1:n) = a + b
    c(:, 2) = c(:, 1) + d(:, 3); c(:, 4) = 5
    a(2:n:2) = b(0:n-1:2)*2 ! strides
    a(2:n) = a(1:n-1)
    a(n:1:-1) = b
    d(2:n-1, 2:m-1) = c(1:n-2, 2:m-1) + &
       c(3:n, 2:m-1) + & ! more
       abs(c(2:n-1, 1:m-2))
    mask = a > 5
    where (mask) a = -a
    where (c > 1)
      c = c - 1
    elsewhere (c < -1)
      d = d + c
      c = merge(c, d, d > 0)
    elsewhere
      c = 0
    end where
    forall (i = 1:n, j = 1:m, d(i, j) > 0) d(i, j) = d(i, j) + i
    if (n > 3) w(:) = w + 1
    do j = 1, m
      c(:, j) = c(:, j)*j
      where (d(:, j) > 30) d(:, j) = 30
    end do
    !$acc end kernels
    !$acc kernels
    do concurrent (j = 1:m, i = 1:n, mod(i, 2) == 0)
      c(i, j) = c(i, j) + i*10 + j
      if (c(i, j) > 100) cycle
      c(i, j) = c(i, j) + 3
    end do
    !$acc end kernels
    !$acc kernels copyin(idx)
    b(idx) = a
    !$acc end kernels
    !$acc kernels copy(s, t)
    s = sum(a)
    t = maxval(c)
    s = s + dot_product(a, b)
    !$acc end kernels
    !$acc kernels copyout(l1, l2, count_of)
    l1 = any(a > 100)
    l2 = all(a < 100)
    count_of = count(a > 0)
    !$acc end kernels
  end subroutine

  ! The same, element by element.
  subroutine host(a, b, c, d, w, idx, s, t, count_of, l1, l2, mask)
    real(8) :: a(n), b(0:n-1), c(n, m), d(n, m), w(-3:n), s, t, old(n)
    integer :: idx(n), i, j, count_of
    logical :: l1, l2, mask(n)
    do i = 1, n
      a(i) = a(i)*2 + 1
      w(i) = a(i) + b(i-1)
      c(i, 2) = c(i, 1) + d(i, 3)
      c(i, 4) = 5
    end do
    do i = 2, n, 2
      a(i) = b(i-2)*2
    end do
    old = a
    do i = 2, n
      a(i) = old(i-1)
    end do
    do i = 1, n
      a(i) = b(n-i)
    end do
    do j = 2, m-1
      do i = 2, n-1
        d(i, j) = c(i-1, j) + c(i+1, j) + abs(c(i, j-1))
      end do
    end do
    do i = 1, n
      mask(i) = a(i) > 5
      if (mask(i)) a(i) = -a(i)
      do j = 1, m
        if (c(i, j) > 1) then
          c(i, j) = c(i, j) - 1
        else if (c(i, j) < -1) then
          d(i, j) = d(i, j) + c(i, j)
          if (d(i, j) <= 0) c(i, j) = d(i, j)
        else
          c(i, j) = 0
        end if
        if (d(i, j) > 0) d(i, j) = d(i, j) + i
        c(i, j) = c(i, j)*j
        d(i, j) = min(d(i, j), 30d0)
        if (mod(i, 2) == 0) then
          c(i, j) = c(i, j) + i*10 + j
          if (c(i, j) <= 100) c(i, j) = c(i, j) + 3
        end if
      end do
    end do
    do i = -3, n
      w(i) = w(i) + 1
    end do
    do i = 1, n
      b(idx(i)) = a(i)
    end do
    s = 0
    t = c(1, 1)
    l1 = .false.
    l2 = .true.
    count_of = 0
    do i = 1, n
      s = s + a(i) + a(i)*b(i-1)
      l1 = l1 .or. a(i) > 100
      l2 = l2 .and. a(i) < 100
      if (a(i) > 0) count_of = count_of + 1
      do j = 1, m
        t = max(t, c(i, j))
      end do
    end do
  end subroutine

  ! Reductions of one dimension, and counts.
  subroutine dimensions(c, rows, columns, least, counts, odd)
    real(8) :: c(n, m), rows(n), columns(m), least(0:m-1)
    integer :: counts(n), odd
    !$acc kernels
    rows = sum(c, dim=2)
    columns(:) = sum(c*2, 1, mask=c > 0)
    least = minval(c, dim=1)
    counts = count(c > 0, dim=2)
    odd = count(mod(counts, 2) == 1)
    !$acc end kernels
  end subroutine

  ! Assignments that may or may not overlap, through pointers and components.
  subroutine overlaps(x, one)
    real(8), target :: x(n)
    type(cell) :: one
    real(8), pointer :: p(:), q(:)
    integer :: i
    p => x(2:n)
    q => x(1:n-1)
    !$acc data copy(x)
    !$acc kernels present(x)
    p = q*2
    !$acc end kernels
    !$acc end data
    !$acc kernels copy(one)
    do i = 1, n
      one%x(i) = one%x(i)*one%scale
    end do
    one%x(1:n-1) = one%x(2:n)
    !$acc end kernels
  end subroutine
end module

program main
  use check
  use statements
  implicit none
  real(8), dimension(n) :: a, a2, x
  real(8), dimension(0:n-1) :: b, b2
  real(8), dimension(n, m) :: c, d, c2, d2
  real(8) :: w(-3:n), w2(-3:n), s, t, s2, t2
  integer :: idx(n), i, j, k, k2
  logical :: l1, l2, l3, l4, mask(n), mask2(n)
  real(8) :: rows(n), columns(m), least(m)
  integer :: counts(n), odd
  type(cell) :: one
  do i = 1, n
    a(i) = mod(i*7, 23) - 9
    b(i-1) = mod(i*5, 31) - 12
    idx(i) = mod(i*3, n) ! a permutation of 0 to n - 1
    do j = 1, m
      c(i, j) = mod(i*11 + j*3, 17) - 8
      d(i, j) = mod(i*2 + j*7, 29) - 14
    end do
  end do
  w = 2
  a2 = a
  b2 = b
  c2 = c
  d2 = d
  w2 = w
  s = 0
  t = 0
  call device(a, b, c, d, w, idx, s, t, k, l1, l2, mask)
  call host(a2, b2, c2, d2, w2, idx, s2, t2, k2, l3, l4, mask2)
  call equal('a', all(a == a2), .true.)
  call equal('b', all(b == b2), .true.)
  call equal('c', all(c == c2), .true.)
  call equal('d', all(d == d2), .true.)
  call equal('w', all(w == w2), .true.)
  call equal('s', s, s2)
  call equal('t', t, t2)
  call equal('count', k, k2)
  call equal('any', l1, l3)
  call equal('all', l2, l4)
  call equal('mask', all(mask .eqv. mask2), .true.)
  call dimensions(c, rows, columns, least, counts, odd)
  do i = 1, n
    s = 0
    k = 0
    do j = 1, m
      s = s + c(i, j)
      if (c(i, j) > 0) k = k + 1
    end do
    call equal('sums of rows', rows(i), s)
    call equal('counts', counts(i), k)
  end do
  do j = 1, m
    s = 0
    t = c(1, j)
    do i = 1, n
      if (c(i, j) > 0) s = s + c(i, j)*2
      t = min(t, c(i, j))
    end do
    call equal('sums of columns', columns(j), s)
    call equal('least of columns', least(j), t)
  end do
  k = 0
  do i = 1, n
    k = k + mod(counts(i), 2)
  end do
  call equal('odd counts', odd, k)
  do i = 1, n
    x(i) = i
    one%x(i) = i
  end do
  one%scale = 3
  call overlaps(x, one)
  call equal('x(1)', x(1), 1d0)
  call equal('p', all(x(2:n) == [(2d0*i, i = 1, n - 1)]), .true.)
  call equal('components', all(one%x == [(3d0*min(i + 1, n), i = 1, n)]), .true.)
  call pass()
end program
