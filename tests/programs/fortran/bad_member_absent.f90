! present of an allocatable member whose object is there and which is not.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel \(bad_member_absent\.f90:\d+, (main|MAIN__)\).*not present.*acc_error_not_present/
program main
  implicit none
  type mesh
    integer :: n
    real(8), allocatable :: nodes(:)
  end type
  type(mesh) :: m
  integer :: i
  m%n = 30
  allocate (m%nodes(30), source=1d0)
  !$acc enter data copyin(m)
  !$acc parallel loop present(m%nodes)
  do i = 1, 30
    m%nodes(i) = i
  end do
  write (*, '(a)') 'FAIL the region ran'
end program
