! Operators and generic functions for a type, elemental and used in regions (2.15.1). GCC 12 cannot compile them for nvptx.
! BUILD offload=no
module intervals
  implicit none
  type interval
    real(8) :: lo, hi
  end type
  interface operator(+)
    module procedure add
  end interface
  interface width
    module procedure width_one, width_real
  end interface
contains
  elemental type(interval) function add(a, b)
    !$acc routine seq
    type(interval), intent(in) :: a, b
    add = interval(a%lo + b%lo, a%hi + b%hi)
  end function
  elemental real(8) function width_one(a)
    !$acc routine seq
    type(interval), intent(in) :: a
    width_one = a%hi - a%lo
  end function
  elemental real(8) function width_real(a)
    !$acc routine seq
    real(8), intent(in) :: a
    width_real = 0*a
  end function
end module
program main
  use check
  use intervals
  implicit none
  type(interval) :: a(25), b(25), c(25)
  real(8) :: w(25)
  integer :: i
  do i = 1, 25
    a(i) = interval(i, i + 1)
    b(i) = interval(-i, 2*i)
  end do
  !$acc parallel loop copyin(a, b) copyout(c, w)
  do i = 1, 25
    c(i) = a(i) + b(i)
    w(i) = width(c(i)) + width(1d0)
  end do
  do i = 1, 25
    call equal('lo', c(i)%lo, 0d0)
    call equal('w', w(i), 3d0*i + 1)
  end do
  call pass()
end program
