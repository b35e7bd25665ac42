! acc_free of the device's address of an array that is present, as acc_deviceptr gives it.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_free .*acc_error_/
program main
  use openacc
  implicit none
  integer :: a(10)
  a = 1
  call acc_copyin(a)
  call acc_free(acc_deviceptr(a))
  write (*, '(a)') 'FAIL freed what is present'
end program
