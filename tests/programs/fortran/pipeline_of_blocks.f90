! Blocks of an array over several queues: bring, compute and take overlap, and each block finds its own data.
program main
  use check
  implicit none
  integer, parameter :: n = 64000, blocks = 16
  integer, allocatable :: a(:), b(:)
  integer :: lo, hi, k, i, q
  allocate (a(n), b(n))
  a = [(i, i = 1, n)]
  b = 0
  !$acc data create(a, b)
  do k = 1, blocks
    lo = (k - 1)*(n/blocks) + 1
    hi = k*(n/blocks)
    q = mod(k, 3) + 1
    !$acc update device(a(lo:hi)) async(q)
    !$acc parallel loop present(a, b) async(q)
    do i = lo, hi
      b(i) = a(i)*2 + k
    end do
    !$acc update self(b(lo:hi)) async(q)
  end do
  !$acc wait
  !$acc end data
  do i = 1, n
    call equal('b', b(i), 2*i + (i - 1)/(n/blocks) + 1)
  end do
  call pass()
end program
