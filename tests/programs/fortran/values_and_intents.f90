! Scalars in every form: value, intent(in), intent(out), optional and present, literals, expressions and named constants.
module forms
  implicit none
  integer, parameter :: wp = kind(1d0)
  real(wp), parameter :: half = 0.5_wp
  integer, parameter :: powers(4) = [1, 2, 4, 8]
contains
  subroutine mix(v, i, o, r, l)
    integer, value :: v
    integer, intent(in) :: i
    integer, intent(out) :: o
    real(wp), intent(inout) :: r
    logical, intent(in), optional :: l
    integer :: k, t
    t = 0
    !$acc parallel loop reduction(+:t)
    do k = 1, 4
      t = t + powers(k)*v + i
    end do
    o = t
    !$acc parallel copy(r)
    r = r*half + 3
    !$acc end parallel
    if (present(l)) then
      !$acc parallel copy(o) copyin(l)
      if (l) o = -o
      !$acc end parallel
    end if
  end subroutine
end module
program main
  use check
  use forms
  implicit none
  integer :: o
  real(wp) :: r
  r = 8
  call mix(3, 10, o, r)
  call equal('o', o, 85)
  call equal('r', r, 7d0)
  call mix(3 + 1, o, o, r, .true.)
  call equal('o negated', o, -(60 + 4*85))
  call equal('r again', r, 6.5d0)
  call pass()
end program
