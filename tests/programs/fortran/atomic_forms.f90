! atomic: read, write, update and capture, of integers, reals and logicals (2.12).
program main
  use check
  implicit none
  integer, parameter :: n = 200
  integer :: hits, order(n), seen(n), last, bins(0:6), lowest, i, t, bits
  integer(8) :: long
  real(8) :: total
  logical :: any_odd, all_small
  hits = 0; last = 0; bins = 0; total = 0; lowest = huge(lowest); long = 0; bits = 0
  any_odd = .false.; all_small = .true.
  seen = 0
  !$acc parallel loop copy(hits, bins, total, last, lowest, long, bits, any_odd, all_small) copyout(order) private(t)
  do i = 1, n
    !$acc atomic update
    bins(mod(i, 7)) = bins(mod(i, 7)) + 1
    !$acc atomic
    total = total + 0.5d0
    !$acc atomic
    lowest = min(lowest, 1000 - i)
    !$acc atomic
    long = long + 2_8**33
    !$acc atomic
    bits = ior(bits, ishft(1, mod(i, 20)))
    !$acc atomic
    any_odd = any_odd .or. mod(i, 2) == 1
    !$acc atomic
    all_small = all_small .and. i < n
    !$acc atomic capture
    hits = hits + 1
    t = hits
    !$acc end atomic
    order(i) = t
    !$acc atomic write
    last = 77
    !$acc atomic read
    t = last
    if (t /= 77) order(i) = -1
  end do
  call equal('hits', hits, n)
  call equal('bins', sum(bins), n)
  call equal('bins(3)', bins(3), 29)
  call equal('total', total, n*0.5d0)
  call equal('lowest', lowest, 800)
  call equal('long', long, n*2_8**33)
  call equal('bits', bits, 2**20 - 1)
  call equal('any_odd', any_odd, .true.)
  call equal('all_small', all_small, .false.)
  do i = 1, n
    call equal('order in range', order(i) >= 1 .and. order(i) <= n, .true.)
    seen(order(i)) = seen(order(i)) + 1
  end do
  call equal('each number once', maxval(seen), 1)
  ! Capture before the update, and of a swap.
  hits = 10
  t = 0
  !$acc serial copy(hits, t)
  !$acc atomic capture
  t = hits
  hits = hits*3
  !$acc end atomic
  !$acc end serial
  call equal('captured', t, 10)
  call equal('updated', hits, 30)
  call pass()
end program
