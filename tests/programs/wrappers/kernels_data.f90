! What kernels_modules.f90 uses.
module kernels_data
  implicit none
  integer, parameter :: dp = selected_real_kind(15)
  real(dp), parameter :: factor = 2
  real(dp) :: weights(50)
contains
  pure real(dp) function times(x)
    !$acc routine seq
    real(dp), intent(in) :: x
    times = 3*x
  end function
end module
