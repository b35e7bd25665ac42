! Results of functions as data: explicit, automatic, allocatable and pointer results.
module results
  implicit none
contains
  function automatic(n) result(r)
    integer, intent(in) :: n
    integer :: r(n), i
    !$acc parallel loop copyout(r)
    do i = 1, n
      r(i) = i
    end do
  end function
  function growing(n) result(r)
    integer, intent(in) :: n
    integer, allocatable :: r(:)
    integer :: i
    allocate (r(0:n - 1))
    !$acc enter data create(r)
    !$acc parallel loop present(r)
    do i = 0, n - 1
      r(i) = 2*i
    end do
    !$acc exit data copyout(r)
  end function
  function implicit_result(n)
    integer, intent(in) :: n
    integer, allocatable :: implicit_result(:)
    integer :: i
    allocate (implicit_result(n))
    !$acc kernels loop
    do i = 1, n
      implicit_result(i) = 3*i
    end do
  end function
  function pointing(t) result(r)
    integer, target, intent(inout) :: t(:)
    integer, pointer :: r(:)
    integer :: i
    r => t(2:)
    !$acc parallel loop copy(r)
    do i = 1, size(r)
      r(i) = r(i) + 1
    end do
  end function
  real(8) function scalar(n)
    integer, intent(in) :: n
    integer :: i
    scalar = 0
    !$acc parallel loop reduction(+:scalar)
    do i = 1, n
      scalar = scalar + i
    end do
  end function
  complex function number(x)
    real, intent(in) :: x
    !$acc parallel copyout(number)
    number = cmplx(x, -x)
    !$acc end parallel
  end function
end module
program main
  use check
  use results
  implicit none
  integer, allocatable :: a(:)
  integer, target :: t(5)
  integer, pointer :: p(:)
  call equal('automatic', sum(automatic(10)), 55)
  a = growing(10)
  call equal('growing', sum(a), 90)
  call equal('implicit', sum(implicit_result(10)), 165)
  t = 1
  p => pointing(t)
  call equal('pointing', sum(t), 9)
  call equal('p', size(p), 4)
  call equal('scalar', scalar(100), 5050d0)
  call equal('number', aimag(number(2.5)), -2.5)
  call pass()
end program
