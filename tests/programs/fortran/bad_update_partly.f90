! update of a section of an allocatable array that begins before what is present of it: both ranges are named.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/update \(bad_update_partly\.f90:\d+, (main|MAIN__)\).*present only in part.*acc_error_partly_present/
program main
  implicit none
  real(8), allocatable :: field(:, :)
  allocate (field(10, 10))
  field = 1
  !$acc enter data copyin(field(:, 3:6))
  !$acc update self(field(:, 2:5))
  write (*, '(a)') 'FAIL updated'
end program
