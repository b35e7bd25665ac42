! acc_memcpy_from_device from an address that is no device's.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_error_/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  integer :: a(10)
  type(c_ptr) :: wild
  a = 1
  wild = transfer(4096_c_intptr_t, wild)
  call acc_memcpy_from_device(a, wild, 40_c_size_t)
  write (*, '(a)') 'FAIL copied from nowhere'
end program
