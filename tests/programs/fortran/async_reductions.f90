! Results of reductions in queues: several at once, each of them there after its own queue's wait, and one that a later region of the
! queue goes on with.
program main
  use check
  implicit none
  integer, parameter :: n = 4000, queues = 4
  integer :: i, q, total(queues), small
  integer(8) :: sum8
  real(8) :: x(n, queues), largest
  do q = 1, queues
    x(:, q) = [(real(mod(i*q, 101), 8), i = 1, n)]
  end do
  total = 0
  sum8 = 5
  largest = -1
  small = huge(small)
  !$acc data copyin(x)
  do q = 1, queues
    call count_small(x(:, q), total(q), q)
  end do
  !$acc parallel loop reduction(+:sum8) async(9)
  do i = 1, n
    sum8 = sum8 + i
  end do
  !$acc parallel loop reduction(+:sum8) async(9)
  do i = 1, n
    sum8 = sum8 + 2_8**33
  end do
  !$acc parallel loop reduction(max:largest) reduction(min:small) async(10)
  do i = 1, n
    largest = max(largest, x(i, 3))
    small = min(small, int(x(i, 2)))
  end do
  !$acc wait(10)
  call equal('largest', largest, maxval(x(:, 3)))
  call equal('small', small, int(minval(x(:, 2))))
  !$acc wait(9)
  call equal('sum8', sum8, 5_8 + n*(n + 1_8)/2 + n*2_8**33)
  !$acc wait
  do q = 1, queues
    call equal('total', total(q), count(x(:, q) < 50))
  end do
  !$acc end data
  call pass()
contains
  subroutine count_small(y, r, q)
    real(8), intent(in) :: y(n)
    integer, intent(inout) :: r
    integer, intent(in) :: q
    integer :: i
    !$acc parallel loop present(y) copy(r) reduction(+:r) async(q)
    do i = 1, n
      if (y(i) < 50) r = r + 1
    end do
  end subroutine
end program
