! Bits and division of integers of every size: shifts, rotations, counts, modulo of negative numbers, and what wraps around.
program main
  use check
  implicit none
  integer, parameter :: n = 64
  integer(1) :: a(n)
  integer(2) :: b(n)
  integer(4) :: c(n), d(n), e(n)
  integer(8) :: f(n), g(n)
  integer :: i
  !$acc parallel loop copyout(a, b, c, d, e, f, g)
  do i = 1, n
    a(i) = int(ishft(1_1, mod(i, 7)), 1)
    b(i) = int(ishftc(int(i, 2), 3, 8), 2)
    c(i) = modulo(-i, 7)*10 + mod(i, 7)
    d(i) = popcnt(i) + 100*trailz(i) + 10000*leadz(i)
    e(i) = ior(iand(i, 12), ieor(i, 5)) - not(i)
    f(i) = shiftl(1_8, i - 1)
    g(i) = shiftr(-1_8, i - 1) + merge(1, 0, btest(i, 3))
  end do
  do i = 1, n
    call equal('ishft', int(a(i)), 2**mod(i, 7))
    call equal('ishftc', int(b(i)), int(ishftc(int(i, 2), 3, 8)))
    call equal('modulo', c(i), modulo(-i, 7)*10 + mod(i, 7))
    call equal('counts', d(i), popcnt(i) + 100*trailz(i) + 10000*leadz(i))
    call equal('and, or', e(i), ior(iand(i, 12), ieor(i, 5)) + i + 1)
    call equal('shiftl', f(i), ibset(0_8, i - 1))
    call equal('shiftr', g(i), shiftr(-1_8, i - 1) + merge(1, 0, mod(i/8, 2) == 1))
  end do
  call pass()
end program
