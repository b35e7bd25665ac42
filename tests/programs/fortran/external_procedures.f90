! External procedures with interfaces: a routine named by interface, and one by the directive with its name.
module interfaces
  implicit none
  interface
    real(8) function cube(x)
      !$acc routine seq
      real(8), intent(in) :: x
    end function
    subroutine raise(a, n)
      integer, intent(in) :: n
      real(8), intent(inout) :: a(n)
    end subroutine
  end interface
end module
program main
  use check
  use interfaces
  implicit none
  real(8) :: a(15)
  integer :: i
  a = [(real(i, 8), i = 1, 15)]
  !$acc data copy(a)
  !$acc parallel loop
  do i = 1, 15
    a(i) = cube(a(i))
  end do
  call raise(a, 15)
  !$acc end data
  do i = 1, 15
    call equal('a', a(i), 1d0*i**3 + 1)
  end do
  call pass()
end program
real(8) function cube(x)
  !$acc routine seq
  implicit none
  real(8), intent(in) :: x
  cube = x*x*x
end function
subroutine raise(a, n)
  implicit none
  integer, intent(in) :: n
  real(8), intent(inout) :: a(n)
  integer :: i
  !$acc parallel loop present(a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
end subroutine
