! A queue for each column of an array, more of them than any device has streams, joined by one wait for all.
program main
  use check
  implicit none
  integer, parameter :: n = 64, queues = 150
  real(8), allocatable :: a(:, :)
  integer :: i, q
  allocate (a(n, queues))
  a = 1
  !$acc enter data create(a)
  do q = 1, queues
    !$acc update device(a(:, q:q)) async(q)
    !$acc parallel loop present(a) async(q)
    do i = 1, n
      a(i, q) = a(i, q)*q + i
    end do
  end do
  do q = 2, queues
    !$acc parallel loop present(a) async(q) wait(q - 1)
    do i = 1, n
      a(i, q) = a(i, q) + a(i, q - 1)
    end do
  end do
  do q = 1, queues
    !$acc update self(a(:, q)) async(q)
  end do
  !$acc wait
  !$acc exit data delete(a)
  do q = 1, queues
    do i = 1, n, 21
      call equal('a prefix sum over the columns', a(i, q), q*(q + 1)/2d0 + q*i)
    end do
  end do
  call pass()
end program
