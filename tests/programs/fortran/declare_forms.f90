! declare in modules: copyin, create, device_resident and link, used by routines and by regions (2.13).
module tables
  implicit none
  integer, parameter :: n = 32
  real(8) :: weights(n) = 0.5d0
  integer :: counter(4), scale = 7
  real(8) :: hidden(n)
  integer :: linked(n) = 9
  !$acc declare copyin(weights, scale) create(counter)
  !$acc declare device_resident(hidden)
  !$acc declare link(linked)
contains
  subroutine remember(i, x)
    !$acc routine seq
    integer, intent(in) :: i
    real(8), intent(in) :: x
    hidden(i) = x*weights(i)
  end subroutine
  real(8) function recall(i)
    !$acc routine seq
    integer, intent(in) :: i
    recall = hidden(i) + scale
  end function
end module
program main
  use check
  use tables
  implicit none
  integer :: i
  real(8) :: out(n)
  !$acc parallel loop
  do i = 1, n
    call remember(i, real(i, 8))
  end do
  !$acc parallel loop copyout(out)
  do i = 1, n
    out(i) = recall(i)
  end do
  do i = 1, n
    call equal('out(i)', out(i), 0.5d0*i + 7)
  end do
  counter = 5
  !$acc update device(counter(1:4))
  !$acc parallel num_gangs(1)
  do i = 1, 4
    counter(i) = counter(i)*i
  end do
  !$acc end parallel
  call equal('before', counter(4), want(5, 20))
  !$acc update self(counter(2:4))
  call equal('counter(1)', counter(1), 5)
  call equal('counter(4)', counter(4), 20)
  weights(3) = 100
  !$acc update device(weights(3:3))
  !$acc serial
  call remember(3, 2d0)
  !$acc end serial
  !$acc serial copyout(out)
  out(1) = recall(3)
  !$acc end serial
  call equal('out(1)', out(1), 207d0)
  !$acc data copy(linked)
  !$acc parallel loop
  do i = 1, n
    linked(i) = linked(i) + i
  end do
  !$acc end data
  call equal('linked', linked(n), 41)
  call pass()
end program
