! A histogram whose bins are counted by atomic capture, so that each element also learns its place among its equals.
program main
  use check
  implicit none
  integer, parameter :: n = 700, bins = 9
  integer :: x(n), bin(0:bins - 1), place(n), i, k
  x = [(mod(i*i, bins), i = 1, n)]
  bin = 0
  !$acc parallel loop copyin(x) copy(bin) copyout(place) private(k)
  do i = 1, n
    !$acc atomic capture
    bin(x(i)) = bin(x(i)) + 1
    k = bin(x(i))
    !$acc end atomic
    place(i) = k
  end do
  do k = 0, bins - 1
    call equal('a bin', bin(k), count(x == k))
    call equal('its places', sum(place, mask=x == k), bin(k)*(bin(k) + 1)/2)
  end do
  call pass()
end program
