! Waiting on a device that does not exist.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_wait_all_device \(bad_wait_device\.f90:\d+, (main|MAIN__)\).*no device number 77.*acc_error_device_unavailable/
program main
  use openacc
  implicit none
  call acc_wait_all_device(77)
  write (*, '(a)') 'FAIL waited for device 77'
end program
