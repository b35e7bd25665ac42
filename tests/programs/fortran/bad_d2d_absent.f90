! acc_memcpy_d2d of an array that the other device has not got.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_memcpy_d2d \(bad_d2d_absent\.f90:\d+, (main|MAIN__)\): there \(bad_d2d_absent\.f90:\d+, (main|MAIN__)\).*acc_error_not_present/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  real :: here(10), there(10)
  integer :: kind, num
  here = 1
  there = 2
  kind = acc_get_device_type()
  num = acc_get_device_num(kind)
  call acc_copyin(here)
  call acc_memcpy_d2d(there, here, 40_c_size_t, mod(num + 1, acc_get_num_devices(kind)), num)
  write (*, '(a)') 'FAIL copied to where nothing is'
end program
