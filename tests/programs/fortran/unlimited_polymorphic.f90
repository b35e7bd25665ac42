! class(*) at the host's side of a code: procedures that choose by type and run a region on what they find.
module anything
  implicit none
  type box
    integer :: n
    real(8) :: x(6)
  end type
contains
  subroutine double_it(what)
    class(*), intent(inout) :: what(:)
    select type (what)
    type is (integer)
      call integers(what, size(what))
    type is (real(8))
      call reals(what, size(what))
    type is (box)
      call boxes(what, size(what))
    end select
  end subroutine
  subroutine integers(a, n)
    integer, intent(in) :: n
    integer, intent(inout) :: a(n)
    integer :: i
    !$acc parallel loop copy(a)
    do i = 1, n
      a(i) = 2*a(i)
    end do
  end subroutine
  subroutine reals(a, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: a(n)
    integer :: i
    !$acc parallel loop copy(a)
    do i = 1, n
      a(i) = 2*a(i)
    end do
  end subroutine
  subroutine boxes(a, n)
    integer, intent(in) :: n
    type(box), intent(inout) :: a(n)
    integer :: i, k
    !$acc parallel loop collapse(2) copy(a)
    do i = 1, n
      do k = 1, 6
        a(i)%x(k) = 2*a(i)%x(k)
      end do
    end do
  end subroutine
end module
program main
  use check
  use anything
  implicit none
  integer :: a(9), i
  real(8) :: b(5)
  type(box) :: c(3)
  class(*), allocatable :: d(:)
  a = [(i, i = 1, 9)]
  b = 0.5d0
  do i = 1, 3
    c(i) = box(i, real(i, 8))
  end do
  call double_it(a)
  call double_it(b)
  call double_it(c)
  call double_it(a(1:9:2))
  allocate (d, source=[7d0, 8d0])
  call double_it(d)
  call equal('a(2)', a(2), 4)
  call equal('a(9)', a(9), 36)
  call equal('b', sum(b), 5d0)
  call equal('c', sum(c(3)%x), 36d0)
  call equal('n', c(3)%n, 3)
  select type (d)
  type is (real(8))
    call equal('d', d(2), 16d0)
  end select
  call pass()
end program
