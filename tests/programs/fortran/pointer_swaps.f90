! Time steps whose fields change places, in each way that codes have it: pointers, pointer components, an index into the last
! dimension, and arguments in turn.
module schemes
  implicit none
  integer, parameter :: n = 60
  type pair
    real(8), pointer :: new(:) => null(), old(:) => null()
  end type
contains
  subroutine by_arguments(new, old)
    real(8), intent(inout) :: new(0:n + 1)
    real(8), intent(in) :: old(0:n + 1)
    integer :: i
    !$acc parallel loop present(new, old)
    do i = 1, n
      new(i) = 0.5d0*(old(i - 1) + old(i + 1))
    end do
  end subroutine
end module
program main
  use check
  use schemes
  implicit none
  real(8), target :: a(0:n + 1), b(0:n + 1), u(0:n + 1, 2)
  real(8) :: right(0:n + 1), other(0:n + 1)
  real(8), pointer :: p(:), q(:), t(:)
  type(pair) :: s
  integer :: k, i, now
  right = 0
  right(n + 1) = 64
  do k = 1, 7
    other = right
    right(1:n) = 0.5d0*(other(0:n - 1) + other(2:n + 1))
  end do
  call fresh()
  p(0:) => a
  q(0:) => b
  !$acc data copy(a, b)
  do k = 1, 7
    !$acc parallel loop present(p, q)
    do i = 1, n
      p(i) = 0.5d0*(q(i - 1) + q(i + 1))
    end do
    t => p
    p => q
    q => t
  end do
  !$acc end data
  call equal('pointers', maxval(abs(q - right)), 0d0)
  call fresh()
  !$acc data copy(a, b) create(s)
  s%new(0:) => a
  s%old(0:) => b
  do k = 1, 7
    associate (x => s%new, y => s%old)
      !$acc parallel loop present(x, y)
      do i = 1, n
        x(i) = 0.5d0*(y(i - 1) + y(i + 1))
      end do
    end associate
    t => s%new
    s%new => s%old
    s%old => t
  end do
  !$acc end data
  call equal('components', maxval(abs(s%old - right)), 0d0)
  call fresh()
  !$acc data copy(u)
  now = 1
  do k = 1, 7
    !$acc parallel loop present(u)
    do i = 1, n
      u(i, now) = 0.5d0*(u(i - 1, 3 - now) + u(i + 1, 3 - now))
    end do
    now = 3 - now
  end do
  !$acc end data
  call equal('an index', maxval(abs(u(:, 3 - now) - right)), 0d0)
  call fresh()
  !$acc data copy(a, b)
  do k = 1, 3
    call by_arguments(a, b)
    call by_arguments(b, a)
  end do
  call by_arguments(a, b)
  !$acc end data
  call equal('arguments', maxval(abs(a - right)), 0d0)
  call pass()
contains
  subroutine fresh()
    a = 0
    a(n + 1) = 64
    b = a
    u(:, 1) = a
    u(:, 2) = a
  end subroutine
end program
