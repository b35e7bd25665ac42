! default(none) and default(present), with every variable that a region uses named or mapped before (2.5.16).
module field
  implicit none
  real(8), allocatable :: u(:, :), v(:, :)
contains
  subroutine start(n)
    integer, intent(in) :: n
    allocate (u(n, n), v(n, n))
    u = 1
    v = 2
    !$acc enter data copyin(u, v)
  end subroutine
  subroutine advance(n, dt)
    integer, intent(in) :: n
    real(8), intent(in) :: dt
    integer :: i, j
    !$acc parallel loop collapse(2) default(present)
    do j = 1, n
      do i = 1, n
        u(i, j) = u(i, j) + dt*v(i, j)
      end do
    end do
  end subroutine
  real(8) function total(n)
    integer, intent(in) :: n
    integer :: i, j
    real(8) :: s
    s = 0
    !$acc parallel loop collapse(2) default(none) present(u) copyin(n) reduction(+:s)
    do j = 1, n
      do i = 1, n
        s = s + u(i, j)
      end do
    end do
    total = s
  end function
end module
program main
  use check
  use field
  implicit none
  integer :: k
  call start(20)
  do k = 1, 5
    call advance(20, 0.5d0)
  end do
  call equal('total', total(20), 400*6d0)
  call equal('on the host', u(1, 1), want(1d0, 6d0))
  !$acc exit data delete(u, v)
  call pass()
end program
