! A section of an allocatable array of derived types, or a component of all its elements: without debug information there is no telling, so
! it is taken for the section, and said once.
! BUILD flags=-g0
! EXPECT stderr=/is taken for the first 10 elements of an array of derived types.*compile with -g/
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
  integer :: i, k
  allocate (cells(40))
  cells = [(cell(0.5*i, i, i), i = 1, 40)]
  do k = 1, 2
    !$acc parallel loop copy(cells(1:10))
    do i = 1, 10
      cells(i)%value = cells(i)%value + 1
    end do
  end do
  call equal('a section', sum(cells(:10)%value), 75)
  call equal('a section: all', nint(sum(cells(:10)%more(2))), 55)
  call pass()
end program
