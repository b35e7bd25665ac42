! A polymorphic object that one procedure brings and others use: its container is on the caller's stack.
module model
  implicit none
  type base
    integer :: n = 0
    real(8) :: x(10) = 0
  end type
contains
  subroutine bring(o)
    class(base), intent(inout) :: o
    !$acc enter data copyin(o)
  end subroutine
  subroutine use_it(o, by)
    class(base), intent(inout) :: o
    real(8), intent(in) :: by
    integer :: i
    !$acc parallel loop present(o)
    do i = 1, 10
      o%x(i) = o%x(i) + by*i
    end do
  end subroutine
  recursive subroutine fill_stack(depth)
    integer, intent(in) :: depth
    integer :: local(24), i
    local = depth
    !$acc parallel loop copy(local)
    do i = 1, 24
      local(i) = local(i) + 1
    end do
    do i = 1, 24
      if (local(i) /= depth + 1) stop 1
    end do
    if (depth > 0) call fill_stack(depth - 1)
  end subroutine
  subroutine take(o)
    class(base), intent(inout) :: o
    integer :: pad(40)
    pad = 1
    if (pad(7) == 1) then
      !$acc exit data copyout(o)
    end if
  end subroutine
end module
program main
  use check
  use model
  implicit none
  type(base) :: o
  integer :: i, round
  do round = 1, 3
    call bring(o)
    call fill_stack(5)
    call use_it(o, 1d0)
    call fill_stack(5)
    call use_it(o, 2d0)
    call take(o)
    call equal('present', acc_is_present(o%x), want(.false., .true.))
  end do
  do i = 1, 10
    call equal('x', o%x(i), 9d0*i)
  end do
  call pass()
end program
