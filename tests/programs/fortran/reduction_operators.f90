! Every reduction operator, for every type that has it (2.5.15).
program main
  use check
  implicit none
  integer, parameter :: n = 37
  integer(1) :: i1(n), s1
  integer(2) :: i2(n), s2
  integer(4) :: i4(n), s4, m4, x4, b4, o4, e4
  integer(8) :: i8(n), s8, m8, x8, b8, o8, e8
  real(4) :: r4(n), sr4, pr4, mr4, xr4
  real(8) :: r8(n), sr8, pr8, mr8, xr8
  complex(4) :: c4(n), sc4
  complex(8) :: c8(n), sc8, pc8
  logical :: l(n), a, o, q, d
  integer :: i
  do i = 1, n
    i1(i) = int(mod(i, 3), 1)
    i2(i) = int(i, 2)
    i4(i) = ieor(i*2654435, 255)
    i8(i) = int(i, 8)*2_8**34 + 1
    r4(i) = 1.0 + mod(i, 2)
    r8(i) = 1.0d0 + mod(i, 2)
    c4(i) = cmplx(i, -i)
    c8(i) = merge((0d0, 1d0), (1d0, 0d0), mod(i, 2) == 0)
    l(i) = mod(i, 5) /= 0
  end do
  s1 = 1; s2 = 2; s4 = 3; s8 = 4
  m4 = huge(m4); x4 = -huge(x4); b4 = not(0); o4 = 0; e4 = 5
  m8 = huge(m8); x8 = -huge(x8); b8 = not(0_8); o8 = 0; e8 = 6
  sr4 = 1; pr4 = 1; mr4 = 9; xr4 = -9; sr8 = 1; pr8 = 1; mr8 = 9; xr8 = -9
  sc4 = (1, 1); sc8 = (0, 0); pc8 = (1, 0)
  a = .true.; o = .false.; q = .true.; d = .false.
  !$acc data copyin(i1, i2, i4, i8, r4, r8, c4, c8, l)
  !$acc parallel loop reduction(+:s1, s2, s4, s8)
  do i = 1, n
    s1 = s1 + i1(i)
    s2 = s2 + i2(i)
    s4 = s4 + i4(i)
    s8 = s8 + i8(i)
  end do
  !$acc parallel loop reduction(min:m4, m8) reduction(max:x4, x8)
  do i = 1, n
    m4 = min(m4, i4(i))
    m8 = min(m8, i8(i))
    x4 = max(x4, i4(i))
    x8 = max(x8, i8(i))
  end do
  !$acc parallel loop reduction(iand:b4, b8) reduction(ior:o4, o8) reduction(ieor:e4, e8)
  do i = 1, n
    b4 = iand(b4, i4(i))
    b8 = iand(b8, i8(i))
    o4 = ior(o4, i4(i))
    o8 = ior(o8, i8(i))
    e4 = ieor(e4, i4(i))
    e8 = ieor(e8, i8(i))
  end do
  !$acc parallel loop reduction(+:sr4, sr8) reduction(*:pr4, pr8) reduction(min:mr4, mr8) reduction(max:xr4, xr8)
  do i = 1, n
    sr4 = sr4 + r4(i)
    sr8 = sr8 + r8(i)
    pr4 = pr4*r4(i)
    pr8 = pr8*r8(i)
    mr4 = min(mr4, r4(i))
    mr8 = min(mr8, r8(i))
    xr4 = max(xr4, r4(i))
    xr8 = max(xr8, r8(i))
  end do
  !$acc parallel loop reduction(+:sc4, sc8)
  do i = 1, n
    sc4 = sc4 + c4(i)
    sc8 = sc8 + c8(i)
  end do
  !$acc parallel loop reduction(*:pc8)
  do i = 1, n
    pc8 = pc8*c8(i)
  end do
  !$acc parallel loop reduction(.and.:a) reduction(.or.:o) reduction(.eqv.:q) reduction(.neqv.:d)
  do i = 1, n
    a = a .and. l(i)
    o = o .or. l(i)
    q = q .eqv. l(i)
    d = d .neqv. l(i)
  end do
  !$acc end data
  call equal('integer(1) +', int(s1), 1 + sum(int(i1)))
  call equal('integer(2) +', int(s2), 2 + sum(int(i2)))
  call equal('integer(4) +', s4, 3 + sum(i4))
  call equal('integer(8) +', s8, 4 + sum(i8))
  call equal('integer(4) min', m4, minval(i4))
  call equal('integer(4) max', x4, maxval(i4))
  call equal('integer(8) min', m8, minval(i8))
  call equal('integer(8) max', x8, maxval(i8))
  call equal('integer(4) iand', b4, iall(i4))
  call equal('integer(4) ior', o4, iany(i4))
  call equal('integer(4) ieor', e4, ieor(5, iparity(i4)))
  call equal('integer(8) iand', b8, iall(i8))
  call equal('integer(8) ior', o8, iany(i8))
  call equal('integer(8) ieor', e8, ieor(6_8, iparity(i8)))
  call equal('real(4) +', sr4, 1 + sum(r4))
  call equal('real(8) +', sr8, 1 + sum(r8))
  call equal('real(4) *', pr4, 2.0**19)
  call equal('real(8) *', pr8, 2d0**19)
  call equal('real(4) min', mr4, 1.0)
  call equal('real(8) min', mr8, 1d0)
  call equal('real(4) max', xr4, 2.0)
  call equal('real(8) max', xr8, 2d0)
  call equal('complex(4) +', real(sc4), 704.0)
  call equal('complex(4) +, imaginary', aimag(sc4), -702.0)
  call equal('complex(8) +', real(sc8), 19d0)
  call equal('complex(8) *', real(pc8), -1d0)
  call equal('.and.', a, .false.)
  call equal('.or.', o, .true.)
  call equal('.eqv.', q, mod(count(.not. l), 2) == 0)
  call equal('.neqv.', d, mod(count(l), 2) == 1)
  call pass()
end program
