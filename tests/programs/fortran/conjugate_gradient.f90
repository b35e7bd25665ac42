! A solver as codes have it: sparse rows in a type, vectors present all along, scalars by reduction, kernels in procedures.
module solver
  implicit none
  type matrix
    integer :: n
    integer, allocatable :: row(:), column(:)
    real(8), allocatable :: value(:)
  end type
contains
  subroutine multiply(a, x, y)
    type(matrix), intent(in) :: a
    real(8), intent(in) :: x(:)
    real(8), intent(out) :: y(:)
    integer :: i, k
    real(8) :: s
    !$acc parallel loop present(a, x, y) private(s)
    do i = 1, a%n
      s = 0
      do k = a%row(i), a%row(i + 1) - 1
        s = s + a%value(k)*x(a%column(k))
      end do
      y(i) = s
    end do
  end subroutine
  real(8) function dot(x, y)
    real(8), intent(in) :: x(:), y(:)
    integer :: i
    dot = 0
    !$acc parallel loop present(x, y) reduction(+:dot)
    do i = 1, size(x)
      dot = dot + x(i)*y(i)
    end do
  end function
  subroutine add(x, by, y)
    real(8), intent(inout) :: x(:)
    real(8), intent(in) :: by, y(:)
    integer :: i
    !$acc parallel loop present(x, y)
    do i = 1, size(x)
      x(i) = x(i) + by*y(i)
    end do
  end subroutine
end module
program main
  use check
  use solver
  implicit none
  integer, parameter :: n = 200
  type(matrix) :: a
  real(8), allocatable :: x(:), r(:), p(:), q(:)
  real(8) :: rho, before, alpha
  integer :: i, k, round
  allocate (a%row(n + 1), a%column(3*n), a%value(3*n), x(n), r(n), p(n), q(n))
  a%n = n
  k = 1
  do i = 1, n
    a%row(i) = k
    if (i > 1) call put(i - 1, -1d0)
    call put(i, 2.5d0)
    if (i < n) call put(i + 1, -1d0)
  end do
  a%row(n + 1) = k
  x = 0
  r = [(merge(1.5d0, 0.5d0, i == 1 .or. i == n), i = 1, n)]
  p = r
  !$acc enter data copyin(a)
  !$acc enter data copyin(a%row, a%column, a%value)
  !$acc data copy(x) copyin(r, p) create(q)
  rho = dot(r, r)
  do round = 1, 200
    call multiply(a, p, q)
    alpha = rho/dot(p, q)
    call add(x, alpha, p)
    call add(r, -alpha, q)
    before = rho
    rho = dot(r, r)
    if (rho < 1d-24) exit
    !$acc parallel loop present(p, r)
    do i = 1, n
      p(i) = r(i) + rho/before*p(i)
    end do
  end do
  !$acc end data
  !$acc exit data delete(a%row, a%column, a%value)
  !$acc exit data delete(a)
  call equal('it converges', round < 100, .true.)
  do i = 1, n
    call equal('x(i)', abs(x(i) - 1) < 1d-10, .true.)
  end do
  call pass()
contains
  subroutine put(column, value)
    integer, intent(in) :: column
    real(8), intent(in) :: value
    a%column(k) = column
    a%value(k) = value
    k = k + 1
  end subroutine
end program
