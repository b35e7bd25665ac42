! A region calls by a procedure pointer that the program set: the message names the procedure, the region and the line of the call.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/apply.*_omp_fn\.0 \(.*bad_procedure_pointer\.f90:\d+, .*ended with SIGSEGV.* at address 0x/
! EXPECT stderr=/in the program that is twice \(bad_procedure_pointer\.f90:\d+\), which the device's process has at another address/
! EXPECT stderr=/have the region call the function by its name/
! BUILD offload=no
module functions
  implicit none
  abstract interface
    real(8) function of_number(x)
      real(8), value :: x
    end function
  end interface
contains
  real(8) function twice(x)
    real(8), value :: x
    twice = 2*x
  end function
  real(8) function apply(f, x)
    procedure(of_number), pointer, intent(in) :: f
    real(8), value :: x
    real(8) :: y
    y = x
    !$acc parallel copy(y)
    y = f(y)
    !$acc end parallel
    apply = y
  end function
end module
program main
  use functions
  implicit none
  procedure(of_number), pointer :: f
  f => twice
  print '(a,f4.1)', 'FAIL: the region came back ', apply(f, 2d0)
end program
