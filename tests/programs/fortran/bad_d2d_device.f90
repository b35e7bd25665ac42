! acc_memcpy_d2d to a device that does not exist.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_memcpy_d2d \(bad_d2d_device\.f90:\d+, (main|MAIN__)\).*no device number 42.*acc_error_device_unavailable/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  integer :: a(10), b(10), here
  a = 1
  b = 2
  here = acc_get_device_num(acc_get_device_type())
  call acc_copyin(a)
  call acc_memcpy_d2d(b, a, 40_c_size_t, 42, here)
  write (*, '(a)') 'FAIL copied to device 42'
end program
