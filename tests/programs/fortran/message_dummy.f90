! The message names a dummy argument of the procedure that has the directive. Optimized code keeps it nowhere during the call.
! BUILD flags=-O0
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/update \(message_dummy\.f90:18, push\): field \(message_dummy\.f90:14, push\) is not present on dev\d/
program message_dummy
  implicit none
  real(8), allocatable :: values(:)
  allocate(values(50))
  values = 1
  call push(values, 50)
  print *, 'FAIL: the update came back'
contains
  subroutine push(field, n)
    real(8), intent(inout) :: field(n)
    integer, intent(in) :: n
    field(1) = 2
    !$acc update device(field)
    field(2) = field(1)
  end subroutine
end program
