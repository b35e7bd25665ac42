! Without debug information it is unknown how large the components are that a pointer into an allocatable array points to. Where the
! length shows that they are not whole cells, there is an error, unless all of the array is present.
! BUILD flags=-g0
! BUILD gcc-before=15
! EXPECT exit=1
! EXPECT stderr=/described as whole elements of an array of derived types.*cells\(:\)%value, or compile with -g/
! EXPECT device-memory
program main
  use check
  implicit none
  type cell
    real :: weight
    integer :: value
    real :: more(2)
  end type
  type(cell), allocatable, target :: cells(:)
  integer, pointer :: p(:)
  integer :: i
  allocate (cells(10))
  cells = [(cell(0.5*i, i, i), i = 1, 10)]
  p => cells%value
  !$acc data copy(cells)
  !$acc parallel loop copy(p)
  do i = 1, 10
    p(i) = p(i) + 1
  end do
  !$acc end data
  call equal('present', sum(cells%value), 65)
  ! What the message says to write.
  p => cells(:)%value
  !$acc parallel loop copy(p)
  do i = 1, 10
    p(i) = p(i) + 1
  end do
  call equal('a section', sum(cells%value), 75)
  p => cells%value
  !$acc parallel loop copy(p)
  do i = 1, 10
    p(i) = p(i) + 1
  end do
  call pass()
end program
