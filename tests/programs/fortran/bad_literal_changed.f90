! A region assigns to a dummy argument whose actual argument is a literal.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel .*changed by a region.*read-only.*acc_error_invalid_argument/
module work
contains
  subroutine advance(step)
    integer :: step
    !$acc kernels
    step = step + 1
    !$acc end kernels
  end subroutine
end module

program main
  use work
  call advance(5)
  print '(a)', 'FAIL: the change is lost'
end program
