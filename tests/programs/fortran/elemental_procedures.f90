! Elemental and pure procedures as routines: over scalars in loops, over arrays in kernels, with optional and value arguments, and one
! that calls another from a second module.
module basics
  implicit none
contains
  elemental real(8) function clamp(x, low, high) result(r)
    !$acc routine seq
    real(8), intent(in) :: x, low, high
    r = min(max(x, low), high)
  end function
  pure integer function gcd_of(a, b) result(r)
    !$acc routine seq
    integer, value :: a, b
    integer :: t
    do while (b /= 0)
      t = mod(a, b)
      a = b
      b = t
    end do
    r = abs(a)
  end function
end module
module more
  use basics
  implicit none
contains
  elemental subroutine smooth(x, y, strength)
    !$acc routine seq
    real(8), intent(in) :: x
    real(8), intent(inout) :: y
    real(8), intent(in), optional :: strength
    y = clamp(y + x, -10d0, 10d0)
    if (present(strength)) y = y*strength
  end subroutine
end module
program main
  use check
  use more
  implicit none
  integer, parameter :: n = 30
  real(8) :: x(n), y(n), z(n)
  integer :: g(n), i
  x = [(i - 15d0, i = 1, n)]
  y = 1
  z = 1
  !$acc data copyin(x) copy(y, z) copyout(g)
  !$acc parallel loop
  do i = 1, n
    call smooth(x(i), y(i))
    call smooth(x(i), z(i), 0.5d0)
    g(i) = gcd_of(12*i, 18)
  end do
  !$acc kernels
  z = clamp(z, -3d0, 3d0)
  !$acc end kernels
  !$acc end data
  do i = 1, n
    call equal('y', y(i), clamp(1 + x(i), -10d0, 10d0))
    call equal('z', z(i), clamp(clamp(1 + x(i), -10d0, 10d0)/2, -3d0, 3d0))
    call equal('g', g(i), merge(18, 6, mod(i, 3) == 0))
  end do
  call pass()
end program
