! acc_free of the same c_ptr twice.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_free \(bad_double_free\.f90:\d+, (main|MAIN__)\).*acc_error_/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  type(c_ptr) :: d
  d = acc_malloc(1000_c_size_t)
  call acc_free(d)
  call acc_free(d)
  write (*, '(a)') 'FAIL freed twice'
end program
