! An object of a derived type that becomes present after its allocatable component.
! EXPECT device-memory
program main
  use check
  use openacc
  implicit none
  type pair
    integer :: scale
    real, allocatable :: x(:)
    real, allocatable :: y
  end type
  type(pair) :: p
  integer :: i
  integer, parameter :: n = 50
  allocate(p%x(n), p%y)
  p%scale = 3
  p%y = 2
  p%x = [(real(i), i = 1, n)]
  !$acc enter data copyin(p%x, p%y)
  !$acc enter data copyin(p)
  !$acc parallel loop default(present)
  do i = 1, n
    p%x(i) = p%scale * p%x(i) + p%y
  end do
  !$acc exit data copyout(p%x) delete(p%y)
  !$acc exit data delete(p)
  call equal('present', acc_is_present(p%x), .false.)
  do i = 1, n
    call equal('x', p%x(i), 3. * i + 2.)
  end do
  call pass
end program
