! collapse over loops with lower bounds, steps and bounds that procedures give; the indices are those of the loops as written (2.9.1).
program main
  use check
  implicit none
  integer, parameter :: lo(4) = [-2, 0, 3, 1], hi(4) = [4, 3, 9, 2]
  integer, allocatable :: a(:, :, :, :)
  integer :: i, j, k, l, n, wrong
  allocate (a(lo(1):hi(1), lo(2):hi(2), lo(3):hi(3), lo(4):hi(4)))
  a = -1
  !$acc parallel loop collapse(4) copy(a)
  do l = first(4), hi(4)
    do k = lo(3), hi(3)
      do j = lo(2), hi(2)
        do i = lo(1), last(1)
          a(i, j, k, l) = i + 10*j + 100*k + 1000*l
        end do
      end do
    end do
  end do
  wrong = 0
  !$acc parallel loop collapse(2) copyin(a) reduction(+:wrong)
  do l = hi(4), lo(4), -1
    do k = lo(3), hi(3)
      !$acc loop seq collapse(2)
      do j = lo(2), hi(2)
        do i = lo(1), hi(1)
          if (a(i, j, k, l) /= i + 10*j + 100*k + 1000*l) wrong = wrong + 1
        end do
      end do
    end do
  end do
  call equal('wrong on the device', wrong, 0)
  n = 0
  do l = lo(4), hi(4)
    do k = lo(3), hi(3)
      do j = lo(2), hi(2)
        do i = lo(1), hi(1)
          if (a(i, j, k, l) /= i + 10*j + 100*k + 1000*l) n = n + 1
        end do
      end do
    end do
  end do
  call equal('wrong on the host', n, 0)
  !$acc parallel loop collapse(2) copy(a)
  do k = 3, 9, 3
    do j = 3, 0, -2
      a(0, j, k, 1) = 0
    end do
  end do
  call equal('every third and second', count(a(0, :, :, 1) == 0), 6)
  call equal('at their places', sum(abs(a(0, [1, 3], [3, 6, 9], 1))), 0)
  call pass()
contains
  integer function first(d)
    integer, intent(in) :: d
    first = lo(d)
  end function
  integer function last(d)
    integer, intent(in) :: d
    last = hi(d)
  end function
end program
