! default(present) with an array that is not present, among others that are there.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel \(bad_default_present\.f90:\d+, step\): forgotten \(bad_default_present\.f90:\d+.*\) is not present.*acc_error_not_present/
module fields
  implicit none
  real(8) :: u(64), v(64), forgotten(64)
contains
  subroutine step()
    integer :: i
    !$acc parallel loop default(present)
    do i = 1, 64
      u(i) = v(i) + forgotten(i)
    end do
  end subroutine
end module
program main
  use fields
  implicit none
  u = 0
  v = 1
  forgotten = 2
  !$acc data copy(u) copyin(v)
  call step()
  !$acc end data
  write (*, '(a)') 'FAIL the region ran'
end program
