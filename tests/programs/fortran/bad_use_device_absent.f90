! host_data of a dummy argument that is not present: the message names it and the line. (GCC refuses allocatable arrays there.)
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/host_data \(bad_use_device_absent\.f90:\d+, hand_over\).* not present.*acc_error_not_present/
module library
contains
  subroutine hand_over(field, n)
    use, intrinsic :: iso_c_binding
    integer, intent(in) :: n
    real(8), target, intent(inout) :: field(n)
    type(c_ptr) :: p
    !$acc host_data use_device(field)
    p = c_loc(field)
    !$acc end host_data
    write (*, '(a)') 'FAIL there is an address'
    if (c_associated(p)) stop 2
  end subroutine
end module
program main
  use library
  implicit none
  real(8), allocatable :: field(:)
  allocate (field(100))
  field = 1
  call hand_over(field, 100)
end program
