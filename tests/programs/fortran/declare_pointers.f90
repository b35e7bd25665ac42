! Module pointers and allocatables without declare that regions of several procedures find by present: the idiom of codes that keep all
! their fields in one module, and allocate and map them in another procedure.
module fields
  implicit none
  real(8), allocatable, target :: u(:, :), v(:, :)
  real(8), pointer :: now(:, :) => null(), old(:, :) => null()
  integer :: nx, ny
contains
  subroutine start(n, m)
    integer, intent(in) :: n, m
    nx = n
    ny = m
    allocate (u(0:n + 1, 0:m + 1), v(0:n + 1, 0:m + 1))
    u = 0
    v = 0
    u(0, :) = 8
    v(0, :) = 8
    !$acc enter data copyin(u, v)
    now => u
    old => v
  end subroutine
  subroutine swap()
    real(8), pointer :: t(:, :)
    t => now
    now => old
    old => t
  end subroutine
  subroutine step()
    integer :: i, j
    !$acc parallel loop collapse(2) present(now, old)
    do j = 1, ny
      do i = 1, nx
        now(i, j) = 0.25d0*(old(i - 1, j) + old(i + 1, j) + old(i, j - 1) + old(i, j + 1))
      end do
    end do
  end subroutine
  subroutine finish()
    !$acc exit data copyout(u, v)
  end subroutine
end module
program main
  use check
  use fields
  implicit none
  real(8), allocatable :: a(:, :), b(:, :)
  integer :: k
  call start(14, 9)
  allocate (a, source=u)
  do k = 1, 11
    call swap()
    call step()
  end do
  call finish()
  do k = 1, 11
    b = a
    a(1:14, 1:9) = 0.25d0*(b(0:13, 1:9) + b(2:15, 1:9) + b(1:14, 0:8) + b(1:14, 2:10))
  end do
  call equal('the last step', maxval(abs(now(1:14, 1:9) - a(1:14, 1:9))) < 1d-13, .true.)
  call equal('one before', maxval(abs(old(1:14, 1:9) - b(1:14, 1:9))) < 1d-13, .true.)
  deallocate (u, v)
  call pass()
end program
