! GCC reads an absent optional scalar without a data clause before the region asks present(): the message says so.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/bad_absent_scalar\.f90:\d+.*(null pointer.*optional argument|CUDA_ERROR_ILLEGAL_ADDRESS)/
module absent
contains
  subroutine add(r, s)
    integer, intent(inout) :: r
    integer, optional, intent(in) :: s
    !$acc parallel copy(r)
    if (present(s)) r = r + s
    !$acc end parallel
  end subroutine
end module
program main
  use check
  use absent
  implicit none
  integer :: r
  r = 1
  call add(r)
  write (*, '(a)') 'FAIL the region ran'
end program
