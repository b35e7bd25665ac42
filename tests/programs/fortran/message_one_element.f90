! copy(a(n)) names one element. A region that uses the array then leaves it, and the message asks whether the array was meant.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/a clause names 8 bytes at a \(message_one_element\.f90:\d+, \w+\) \[acc_error_execution\]; that is one element, did you mean \[0:N\]\?.*a\(1:n\)/
program message_one_element
  implicit none
  real(8), allocatable :: a(:)
  integer :: i, n
  n = 1000
  allocate (a(n))
  a = 1
  !$acc parallel loop copy(a(n))
  do i = 1, n
    a(i) = a(i) + 1
  end do
  print *, a(1)
end program
