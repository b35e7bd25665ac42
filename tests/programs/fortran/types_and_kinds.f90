! Kinds: complex, character, logical, 8-byte integers, derived types by value; reductions.
program main
  use check
  implicit none
  type :: pair
    integer :: x
    real(real64) :: y
  end type
  complex :: z(5)
  character(8) :: words(3)
  logical :: flags(4), every
  integer(int64) :: big, biggest
  type(pair) :: p, many(10)
  real(real64) :: total, smallest
  integer :: i
  z = (1.0, 2.0)
  words = ['alpha   ', 'beta    ', 'gamma   ']
  flags = .true.
  big = 2_int64**40
  p = pair(3, 1.5)
  !$acc parallel copy(z, words, flags, many) copyin(big, p)
  do i = 1, 5
    z(i) = z(i)*(0.0, 1.0)
  end do
  words(2) (1:1) = 'B'
  flags(3) = .false.
  do i = 1, 10
    many(i)%x = i*p%x
    many(i)%y = p%y + real(big, real64)
  end do
  !$acc end parallel
  call equal('z(5)', real(z(5)), -2.0)
  call equal('imag', aimag(z(5)), 1.0)
  if (words(2) /= 'Beta') call failed('words(2) is Beta')
  call equal('flags', count(flags), 3)
  call equal('x', many(10)%x, 30)
  call equal('y', many(1)%y, 1.5_real64 + 2.0_real64**40)
  total = 0
  smallest = 1e9
  biggest = 0
  every = .true.
  !$acc parallel loop copyin(many) reduction(+:total) reduction(min:smallest) reduction(max:biggest) reduction(.and.:every)
  do i = 1, 10
    total = total + many(i)%x
    smallest = min(smallest, many(i)%x*0.5_real64)
    biggest = max(biggest, int(many(i)%x, int64)*2_int64**33)
    every = every .and. many(i)%x > 0
  end do
  call equal('total', total, 165.0_real64)
  call equal('smallest', smallest, 1.5_real64)
  call equal('biggest', biggest, 30*2_int64**33)
  call equal('every', every, .true.)
  call pass()
end program
