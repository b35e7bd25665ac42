! A sum over blocks in two queues with no wait between: each region goes on from what the one before has made of it. The program should have joined
! the queues (OpenACC 3.3, 2.16), but works under GCC's own library, whose copies of the variable block.
program async_sums_in_queues
  use check
  implicit none
  integer, parameter :: blocks = 12, length = 256, n = blocks * length
  integer :: a(n), i, round
  do i = 1, n
    a(i) = mod(i, 7)
  end do
  do round = 1, 3
    call equal("the sum over blocks in two queues", total(), sum(a))
  end do
  call equal("the largest of blocks in three queues", largest(), n)
  call pass()
contains
  integer function total()
    integer :: b, k
    total = 0
    !$acc data copyin(a)
    do b = 0, blocks - 1
      !$acc parallel loop reduction(+ : total) async(mod(b, 2) + 1)
      do k = b * length + 1, (b + 1) * length
        total = total + a(k)
      end do
    end do
    !$acc wait
    !$acc end data
  end function total

  integer function largest()
    integer :: b, k
    largest = 0
    do b = blocks - 1, 0, -1
      !$acc parallel loop reduction(max : largest) async(mod(b, 3) + 1)
      do k = b * length + 1, (b + 1) * length
        largest = max(largest, k)
      end do
    end do
    !$acc wait
  end function largest
end program async_sums_in_queues
