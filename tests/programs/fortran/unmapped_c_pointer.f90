! ACCORD_UNMAPPED=map: memory that Fortran allocates and C hands to a region.
! BUILD with=unmapped_c_pointer.c
! RUN env=ACCORD_UNMAPPED=map
program main
  use check
  use iso_c_binding
  implicit none
  interface
    subroutine twice(a, n) bind(c)
      import :: c_double, c_int
      real(c_double), intent(inout) :: a(*)
      integer(c_int), value :: n
    end subroutine
  end interface
  real(c_double), allocatable :: a(:)
  real(c_double) :: local(50)
  integer :: i
  allocate (a(1000))
  a = [(real(i, c_double), i = 1, 1000)]
  local = 3
  call twice(a(11:), 980)
  call twice(local, 50)
  if (.not. (all(a(11:990) == [(2d0 * i, i = 11, 990)]))) call failed('the section')
  if (.not. (a(10) == 10 .and. a(991) == 991 .and. all(local == 6))) call failed('what is around it, or the local array')
  call pass()
end program
