! A Fortran program under a profiling library in C (5.3.3); tests/prof.rs looks at what that prints.
! BUILD flags=-g
! BUILD plugin=proftrace.c
! RUN env=ACC_PROFLIB={plugin}
program prof_traced
  use check
  implicit none
  real, allocatable :: grid(:)
  integer :: i
  allocate (grid(1000))
  grid = 1
  call step(grid)
  call equal("every element was stepped", all(grid == 3), .true.)
  call pass()
contains
  subroutine step(values)
    real, intent(inout) :: values(:)
    integer :: i
    !$acc parallel loop copy(values)
    do i = 1, size(values)
      values(i) = values(i) + 2
    end do
  end subroutine
end program
