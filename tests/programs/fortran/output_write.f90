! What a region writes reaches the program's stdout.
! BUILD offload=no
! EXPECT stdout=/region says 42/
program main
  use check
  implicit none
  integer :: x
  x = 42
  !$acc serial copyin(x)
  write (*, '(a,i0)') 'region says ', x
  !$acc end serial
  call pass()
end program
