! Arrays in a derived type that is not on the device, named by a pointer: GCC 12 passes the pointer by value, and it has to lead to
! where the components are.
module grids
  implicit none
  type grid
    integer :: n = 6
    real(8) :: a(6) = 1
    integer :: k(3) = 2
    complex :: z = (1., 2.)
    real, allocatable :: v(:)
    integer, pointer :: p(:, :) => null()
    integer :: last = 9
  end type
contains
  subroutine array(g)
    type(grid), pointer, intent(in) :: g
    integer :: i
    !$acc parallel loop copy(g%a)
    do i = 1, 6
      g%a(i) = g%a(i) + i
    end do
  end subroutine
  subroutine several(g)
    type(grid), pointer, intent(in) :: g
    integer :: i
    !$acc parallel loop copyin(g%a) copy(g%k) async(2)
    do i = 1, 3
      g%k(i) = g%k(i) + int(g%a(i))
    end do
    !$acc wait(2)
    !$acc serial copy(g%z)
    g%z = g%z*2
    !$acc end serial
  end subroutine
  subroutine allocated(g)
    type(grid), pointer, intent(in) :: g
    integer :: i, j
    !$acc parallel loop copy(g%v)
    do i = 1, 7
      g%v(i) = g%v(i) + i
    end do
    !$acc enter data copyin(g%v)
    !$acc parallel loop present(g%v) async(1)
    do i = 1, 7
      g%v(i) = g%v(i)*2
    end do
    !$acc exit data copyout(g%v) async(1)
    !$acc wait(1)
    !$acc parallel loop collapse(2) copyin(g%v) copy(g%p)
    do j = 1, 4
      do i = 0, 2
        g%p(i, j) = g%p(i, j) + int(g%v(j))
      end do
    end do
  end subroutine
end module
program main
  use check
  use grids
  implicit none
  type(grid), pointer :: g
  type(grid), target :: t
  integer :: i
  allocate (g)
  call array(g)
  do i = 1, 6
    call equal('a', g%a(i), 1d0 + i)
  end do
  call several(g)
  call equal('k', sum(g%k), 6 + 9)
  call equal('z', real(g%z), 2.)
  g => t
  call array(g)
  call several(g)
  call equal('target', sum(t%k), 6 + 9)
  call equal('n', t%n, 6)
  allocate (t%v(7), t%p(0:2, 4))
  t%v = 1
  t%p = 5
  g => t
  call allocated(g)
  do i = 1, 7
    call equal('v', int(t%v(i)), 2 + 2*i)
  end do
  call equal('p', sum(t%p), 3*(4*5 + 8 + 20))
  call equal('last', t%last, 9)
  call pass()
end program
