! acc_map_data of an array that is mapped already, by Fortran's generic name.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_map_data .*field \(bad_map_twice\.f90:\d+, (main|MAIN__)\).*acc_error_present/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  real(8), target :: field(50)
  type(c_ptr) :: d
  field = 1
  d = acc_malloc(400_c_size_t)
  call acc_map_data(field, d, 400_c_size_t)
  call acc_map_data(field, d, 400_c_size_t)
  write (*, '(a)') 'FAIL mapped twice'
end program
