! Loops whose bounds and variables have 8, 2 and 1 bytes, bounds beyond 32 bits, steps of every sign, and loops that don't run at all.
program main
  use check
  implicit none
  integer(8), parameter :: base = 5000000000_8
  integer(8) :: i, from, upto, s
  integer(2) :: j
  integer(1) :: k
  integer :: m, a(-40:40), b(100), count_
  b = 0
  !$acc parallel loop copy(b)
  do i = base, base + 99
    b(int(i - base) + 1) = int(mod(i, 97_8))
  end do
  do m = 1, 100
    call equal('b', b(m), int(mod(base + m - 1, 97_8)))
  end do
  from = -3*base
  upto = 3*base
  s = 0
  !$acc parallel loop reduction(+:s)
  do i = from, upto, base/1000
    s = s + 1
  end do
  call equal('steps', s, 6001_8)
  a = 0
  !$acc parallel loop copy(a)
  do j = 40_2, -40_2, -3_2
    a(j) = j
  end do
  call equal('backwards', sum(a), sum([(m, m = 40, -40, -3)]))
  call equal('none between', count(a /= 0), 27)
  !$acc parallel loop copy(a)
  do k = 30_1, 40_1
    a(k) = 1000 + k
  end do
  call equal('one byte', a(40), 1040)
  count_ = 0
  !$acc parallel loop reduction(+:count_)
  do i = 10, 9
    count_ = count_ + 1
  end do
  !$acc parallel loop reduction(+:count_)
  do m = 1, 10, -1
    count_ = count_ + 1
  end do
  call equal('never', count_, 0)
  !$acc parallel loop collapse(3) reduction(+:count_)
  do i = base, base + 4
    do j = 1_2, 6_2, 2_2
      do m = 3, -3, -2
        count_ = count_ + int(i - base) + j*m*0
      end do
    end do
  end do
  call equal('collapsed', count_, 10*3*4)
  call pass()
end program
