! acc_unmap_data of an array that enter data has brought.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_unmap_data \(bad_unmap_of_copied\.f90:\d+, (main|MAIN__)\) on /
program main
  use openacc
  implicit none
  integer :: a(10)
  a = 1
  !$acc enter data copyin(a)
  call acc_unmap_data(a)
  write (*, '(a)') 'FAIL unmapped'
end program
