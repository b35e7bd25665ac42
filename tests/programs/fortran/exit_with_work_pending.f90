! A program that ends without waiting for its queues, and with data still on the device, ends all the same, with its own status.
! EXPECT exit=7
! EXPECT stdout=/^at the end\n$/
program main
  implicit none
  integer, parameter :: n = 5000
  real :: a(n)
  real, allocatable :: b(:)
  integer :: i, k
  allocate (b(n))
  a = 0
  b = 1
  !$acc enter data copyin(a, b)
  do k = 1, 30
    !$acc parallel loop present(a, b) async(k)
    do i = 1, n
      a(i) = b(i)*k + sqrt(real(i))
    end do
    !$acc update self(a(k:k)) async(k)
  end do
  write (*, '(a)') 'at the end'
  flush (6)
  call exit(7)
end program
