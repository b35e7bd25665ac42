! One exit data too many in a library's procedure: the caller's region no longer finds its array, and the message says which.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel \(bad_deleted_too_early\.f90:\d+, (main|MAIN__)\): samples \(bad_deleted_too_early\.f90:\d+, (main|MAIN__)\) is not present/
module library
contains
  subroutine analyse(x, n, r)
    integer, intent(in) :: n
    real(8), intent(in) :: x(n)
    real(8), intent(out) :: r
    integer :: i
    r = 0
    !$acc enter data copyin(x)
    !$acc parallel loop present(x) reduction(+:r)
    do i = 1, n
      r = r + x(i)
    end do
    !$acc exit data delete(x) finalize
  end subroutine
end module
program main
  use library
  implicit none
  real(8) :: samples(40), r
  integer :: i
  samples = 1
  !$acc enter data copyin(samples)
  call analyse(samples, 40, r)
  !$acc parallel loop present(samples)
  do i = 1, 40
    samples(i) = r
  end do
  write (*, '(a)') 'FAIL the region ran'
end program
