! STOP in a region: an error of the device that names the region and says what to do instead.
! EXPECT device-memory
! BUILD offload=no
! EXPECT exit=1
! EXPECT stderr=/acc_error_execution/
! EXPECT stderr=/STOP in Fortran/
program main
  implicit none
  integer :: i, a(10)
  a = 1
  !$acc parallel loop copy(a)
  do i = 1, 10
    if (a(i) == 1) stop 3
  end do
  print *, 'FAIL: the region came back'
end program
