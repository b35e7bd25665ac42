! A routine of Accord's module for a part of an array with gaps: an error that says so, where a packed copy would be present for nothing.
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/acc_copyin \(bad_section_with_gaps\.f90:\d+, bring\).*5 elements .*not contiguous.*acc_error_invalid_data_section/
module work
  use openacc
contains
  subroutine bring(x)
    integer, intent(in) :: x(:)
    call acc_copyin(x)
  end subroutine
end module
program main
  use work
  implicit none
  integer :: a(10)
  a = 1
  call bring(a(1:9:2))
  write (*, '(a)') 'FAIL copied'
end program
