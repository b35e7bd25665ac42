! A region that reaches an allocatable member through its object, which is there, while the member's array is not: the host's address.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/(ended with SIG\w+|failed: cu\w+: CUDA_ERROR_\w+) .*acc_error_execution/
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
  !$acc data copy(m)
  !$acc parallel loop present(m)
  do i = 1, m%n
    m%nodes(i) = i
  end do
  !$acc end data
  write (*, '(a)') 'FAIL the region ran'
end program
