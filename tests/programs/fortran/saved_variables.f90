! Variables that keep their value: save, initialized locals, module variables, and threadprivate of none; present between calls.
module state
  implicit none
  integer, save :: calls = 0
  real(8) :: shared(16) = 0
contains
  subroutine tick(out)
    integer, intent(out) :: out
    integer, save :: kept(8) = 1
    logical, save :: first = .true.
    integer :: i
    if (first) then
      !$acc enter data copyin(kept, shared)
      first = .false.
    end if
    calls = calls + 1
    !$acc parallel loop present(kept, shared)
    do i = 1, 8
      kept(i) = kept(i)*2
      shared(i) = shared(i) + kept(i)
    end do
    !$acc update self(kept)
    out = kept(8)
  end subroutine
end module
program main
  use check
  use state
  implicit none
  integer :: k, out
  do k = 1, 5
    call tick(out)
    call equal('out', out, 2**k)
  end do
  call equal('calls', calls, 5)
  call equal('shared', shared(1), want(0d0, 62d0))
  !$acc exit data copyout(shared)
  call equal('shared', shared(8), 62d0)
  call equal('shared', shared(9), 0d0)
  call pass()
end program
