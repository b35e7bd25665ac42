! A device that does not exist.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_set_device_num.*\b77\b/
program main
  use check
  implicit none
  call acc_set_device_num(77, acc_get_device_type())
  write (*, '(a)') 'FAIL nothing was said'
end program
