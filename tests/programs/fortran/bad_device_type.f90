! A device type without devices, by name.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_set_device_type \(bad_device_type\.f90:\d+, (main|MAIN__)\).*acc_error_device_type_unavailable/
program main
  use openacc
  implicit none
  call acc_set_device_type(acc_device_radeon)
  write (*, '(a)') 'FAIL there is a radeon'
end program
