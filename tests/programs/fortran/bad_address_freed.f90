! acc_free of an address of another device (3.2.17).
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_free .*is memory of dev0 \(.*acc_error_invalid_argument/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  type(c_ptr) :: d
  integer(acc_device_kind) :: kind
  kind = acc_get_device_type()
  call acc_set_device_num(0, kind)
  d = acc_malloc(1000_c_size_t)
  call acc_set_device_num(1, kind)
  call acc_free(d)
  write (*, '(a)') 'FAIL freed on another device'
end program
