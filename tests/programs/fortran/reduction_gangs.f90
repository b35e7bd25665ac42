! Reductions over as many gangs as the device takes (2.9.11): the operators and intrinsics that only Fortran has.
program main
  use check
  implicit none
  integer, parameter :: n = 150000
  integer :: a(n), i, round
  integer :: all_bits, any_bits, odd_bits
  integer(int64) :: all_long, any_long, odd_long, low
  logical :: every, some, equivalent, different
  real(real64) :: high
  complex :: z
  logical :: want_every, want_some, want_equivalent, want_different
  a = [(i, i = 1, n)]
  !$acc data copyin(a)
  ! With a number that is nowhere, and with one that is once.
  do round = 0, 1
    every = .true.
    some = .false.
    equivalent = .true.
    different = round == 1
    !$acc parallel loop reduction(.and.:every) reduction(.or.:some)
    do i = 1, n
      every = every .and. a(i) /= round*4321
      some = some .or. a(i) == round*4321
    end do
    !$acc parallel loop gang worker vector reduction(.eqv.:equivalent) reduction(.neqv.:different)
    do i = 1, n
      equivalent = equivalent .eqv. a(i) /= round*4321
      different = different .neqv. a(i) == round*4321
    end do
    want_every = round == 0
    want_some = round == 1
    want_equivalent = round == 0
    want_different = .false.
    call equal('.and.', every, want_every)
    call equal('.or.', some, want_some)
    call equal('.eqv.', equivalent, want_equivalent)
    call equal('.neqv.', different, want_different)
  end do
  all_bits = not(2)
  any_bits = 1
  odd_bits = 77
  !$acc parallel loop reduction(iand:all_bits) reduction(ior:any_bits) reduction(ieor:odd_bits)
  do i = 1, n
    all_bits = iand(all_bits, not(iand(a(i), 65604)))
    any_bits = ior(any_bits, a(i)*8)
    odd_bits = ieor(odd_bits, a(i)*31)
  end do
  all_long = not(2_int64)
  any_long = 1
  odd_long = 77
  low = 0
  high = -1
  !$acc parallel loop gang worker vector reduction(iand:all_long) reduction(ior:any_long) reduction(ieor:odd_long) &
  !$acc reduction(min:low) reduction(max:high)
  do i = 1, n
    all_long = iand(all_long, not(ishft(int(iand(a(i), 65604), int64), 30)))
    any_long = ior(any_long, ishft(int(a(i), int64), 33))
    odd_long = ieor(odd_long, a(i)*31_int64**9)
    low = min(low, -a(i)*2_int64**33)
    high = max(high, a(i)*0.5_real64)
  end do
  z = (1.0, 2.0)
  !$acc parallel loop reduction(+:z)
  do i = 1, n
    z = z + cmplx(mod(a(i), 4), -mod(a(i), 8))
  end do
  !$acc end data
  call equal('iand', all_bits, iand(not(2), not(iand(65604, 262143))))
  call equal('ior', any_bits, ior(1, 262143*8))
  call equal('ieor', odd_bits, folded(77))
  call equal('iand of 8 bytes', all_long, iand(not(2_int64), not(ishft(65604_int64, 30))))
  call equal('ior of 8 bytes', any_long, ior(1_int64, ishft(262143_int64, 33)))
  call equal('ieor of 8 bytes', odd_long, folded_long(77_int64))
  call equal('min', low, -n*2_int64**33)
  call equal('max', high, n*0.5_real64)
  call equal('real', real(z), 1.0 + n/4*6)
  call equal('imag', aimag(z), 2.0 - n/8*28)
  call pass()
contains
  integer function folded(start)
    integer, intent(in) :: start
    integer :: k
    folded = start
    do k = 1, n
      folded = ieor(folded, k*31)
    end do
  end function

  integer(int64) function folded_long(start)
    integer(int64), intent(in) :: start
    integer :: k
    folded_long = start
    do k = 1, n
      folded_long = ieor(folded_long, k*31_int64**9)
    end do
  end function
end program
