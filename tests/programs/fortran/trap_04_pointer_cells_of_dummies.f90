! enter data on a dummy maps through a pointer on the stack; it is left from another frame, and what lies
! at that stack address later must not look present.
! BUILD core
program main
  use check
  implicit none
  real(real64) :: a(200)
  integer :: i, round
  a = 0
  do round = 1, 5
    call enter(a)
    call deeper(3)
    call work(a)
    call leave(a)
    call equal('present', acc_is_present(a), want(.false., .true.))
  end do
  do i = 1, 200
    call equal('a(i)', a(i), 5.0_real64*i)
  end do
  call pass()
contains
  subroutine enter(x)
    real(real64), intent(inout) :: x(:)
    !$acc enter data copyin(x)
  end subroutine
  recursive subroutine deeper(n)
    integer, intent(in) :: n
    integer :: local(40), i
    local = -n
    !$acc parallel loop copy(local)
    do i = 1, 40
      local(i) = local(i) + i
    end do
    do i = 1, 40
      call equal('local(i)', local(i), i - n)
    end do
    if (n > 0) call deeper(n - 1)
  end subroutine
  subroutine work(x)
    real(real64), intent(inout) :: x(:)
    integer :: i, pad(30)
    pad = 1
    !$acc parallel loop present(x) copyin(pad)
    do i = 1, size(x)
      x(i) = x(i) + i*pad(1)
    end do
  end subroutine
  subroutine leave(x)
    real(real64), intent(inout) :: x(:)
    integer :: pad(100)
    pad = 2
    if (pad(1) == 2) then
      !$acc exit data copyout(x)
    end if
  end subroutine
end program
