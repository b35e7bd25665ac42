! c_null_ptr as the device's side of a copy with bytes.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_memcpy_to_device \(bad_null_memcpy\.f90:\d+, (main|MAIN__)\).*acc_error_invalid_null_pointer/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  integer :: a(10)
  a = 1
  call acc_memcpy_to_device(c_null_ptr, a, 40_c_size_t)
  write (*, '(a)') 'FAIL copied to null'
end program
