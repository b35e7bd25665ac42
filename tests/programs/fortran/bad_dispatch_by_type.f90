! A region calls a type-bound procedure of a class object that the program has made: the message names the type's table, the region and the line.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/area_on_device.*_omp_fn\.0 \(.*bad_dispatch_by_type\.f90:\d+, .*ended with SIGSEGV/
! EXPECT stderr=/in the program that is the table of type-bound procedures of shapes_Square, which the device's process has at another address/
! EXPECT stderr=/write select type around the region, and name the object in a clause/
! BUILD offload=no
module shapes
  implicit none
  type :: shape
    real(8) :: side = 3
  contains
    procedure :: area
  end type
  type, extends(shape) :: square
  contains
    procedure :: area => area_of_square
  end type
contains
  real(8) function area(this)
    class(shape), intent(in) :: this
    area = this%side
  end function
  real(8) function area_of_square(this)
    class(square), intent(in) :: this
    area_of_square = this%side**2
  end function
  real(8) function area_on_device(s)
    class(shape), intent(in) :: s
    real(8) :: a
    a = 0
    !$acc parallel copy(a)
    a = s%area()
    !$acc end parallel
    area_on_device = a
  end function
end module
program main
  use shapes
  implicit none
  class(shape), allocatable :: s
  if (command_argument_count() < 100) then
    allocate (square :: s)
  else
    allocate (s)
  end if
  print '(a,f4.1)', 'FAIL: the region came back ', area_on_device(s)
end program
