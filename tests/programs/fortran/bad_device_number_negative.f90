! A negative device number.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_set_device_num \(bad_device_number_negative\.f90:\d+, (main|MAIN__)\).*-3.*acc_error_device_unavailable/
program main
  use openacc
  implicit none
  call acc_set_device_num(-3, acc_get_device_type())
  write (*, '(a)') 'FAIL device -3'
end program
