! A bitonic sort: many short regions one after the other, whose bounds are the host's loop variables.
program main
  use check
  implicit none
  integer, parameter :: n = 256
  integer :: a(0:n - 1), i, j, k, partner, t, seed
  integer(8) :: before
  seed = 12345
  do i = 0, n - 1
    seed = mod(seed*1103 + 12345, 65536)
    a(i) = seed
  end do
  before = sum(int(a, 8))
  !$acc data copy(a)
  k = 2
  do while (k <= n)
    j = k/2
    do while (j > 0)
      !$acc parallel loop present(a) private(partner, t) async(1)
      do i = 0, n - 1
        partner = ieor(i, j)
        if (partner > i) then
          if ((iand(i, k) == 0) .eqv. (a(i) > a(partner))) then
            t = a(i)
            a(i) = a(partner)
            a(partner) = t
          end if
        end if
      end do
      j = j/2
    end do
    k = 2*k
  end do
  !$acc wait(1)
  !$acc end data
  do i = 1, n - 1
    call equal('in order', a(i - 1) <= a(i), .true.)
  end do
  call equal('sum', sum(int(a, 8)), before)
  call pass()
end program
