! Reductions of scalars in every place that a Fortran code has them: module variables, members of common, dummies by value and by
! reference, function results, allocatable and pointer scalars, and complex numbers, each with a start that is not the neutral one.
module place
  implicit none
  integer :: in_module = 3
contains
  integer function result_of(n) result(r)
    integer, intent(in) :: n
    integer :: i
    r = 100
    !$acc parallel loop reduction(+:r)
    do i = 1, n
      r = r + i
    end do
  end function
  subroutine into(n, s, t)
    integer, intent(in), value :: n
    integer(8), intent(inout) :: s
    real(8), intent(inout), optional :: t
    integer :: i
    !$acc parallel loop reduction(+:s)
    do i = 1, n
      s = s + 2_8**32
    end do
    if (.not. present(t)) return
    !$acc parallel loop reduction(max:t)
    do i = 1, n
      t = max(t, i + 0.25d0)
    end do
  end subroutine
  subroutine of_module(n)
    integer, intent(in) :: n
    integer :: i
    !$acc parallel loop reduction(ieor:in_module)
    do i = 1, n
      in_module = ieor(in_module, i)
    end do
  end subroutine
end module
program main
  use check
  use place
  implicit none
  integer :: i, c, k
  common /counter/ c
  integer(8) :: s
  real(8) :: t
  complex(8) :: z
  real(8), allocatable :: a
  integer, pointer :: p
  integer, target :: behind
  call equal('a result', result_of(50), 100 + 1275)
  s = 7
  call into(30, s)
  t = -5
  call into(12, s, t)
  call equal('s', s, 7 + 42*2_8**32)
  call equal('t', t, 12.25d0)
  call of_module(20)
  k = 3
  do i = 1, 20
    k = ieor(k, i)
  end do
  call equal('of a module', in_module, k)
  c = 4
  !$acc parallel loop reduction(+:c)
  do i = 1, 10
    c = c + i
  end do
  call equal('of common', c, 59)
  z = (1, 1)
  !$acc parallel loop reduction(+:z)
  do i = 1, 10
    z = z + cmplx(i, -i, 8)
  end do
  call equal('complex', real(z), 56d0)
  call equal('imaginary', aimag(z), -54d0)
  a = 0.5d0
  behind = 2
  p => behind
  !$acc parallel loop reduction(+:k)
  do i = 1, 4
    k = k + i
  end do
  call equal('again', k, ieor(3, 20) + 10)
  call scalars(a, p)
  call equal('allocatable', a, 15.5d0)
  call equal('pointer', behind, 2*120)
  call pass()
contains
  subroutine scalars(a, p)
    real(8), intent(inout) :: a
    integer, intent(inout) :: p
    integer :: i
    !$acc parallel loop reduction(+:a) reduction(*:p)
    do i = 1, 5
      a = a + i
      p = p*i
    end do
  end subroutine
end program
