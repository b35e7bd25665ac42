! Assumed-rank dummies and select rank: one procedure for all ranks, as interfaces of newer libraries have it.
module ranks
  implicit none
contains
  subroutine scale_(a, by)
    real(8), intent(inout) :: a(..)
    real(8), intent(in) :: by
    select rank (a)
    rank (0)
      call one(a, by)
    rank (1)
      call many(a, size(a), by)
    rank (2)
      call many(a, size(a), by)
    rank (3)
      call many(a, size(a), by)
    end select
  end subroutine
  subroutine one(s, by)
    real(8), intent(inout) :: s
    real(8), intent(in) :: by
    !$acc serial copy(s)
    s = s*by
    !$acc end serial
  end subroutine
  subroutine many(a, n, by)
    integer, intent(in) :: n
    real(8), intent(inout) :: a(n)
    real(8), intent(in) :: by
    integer :: i
    !$acc parallel loop copy(a)
    do i = 1, n
      a(i) = a(i)*by
    end do
  end subroutine
end module
program main
  use check
  use ranks
  implicit none
  real(8) :: s, a(7), b(3, 4)
  real(8), allocatable :: c(:, :, :)
  s = 2
  a = 1
  b = 3
  allocate (c(2, 0:2, -1:1))
  c = 1
  call scale_(s, 3d0)
  call scale_(a, 2d0)
  call scale_(b, 5d0)
  call scale_(c, 7d0)
  call scale_(b(2, :), 2d0)
  call equal('s', s, 6d0)
  call equal('a', sum(a), 14d0)
  call equal('b', sum(b), 8*15d0 + 4*30)
  call equal('c', sum(c), 126d0)
  call pass()
end program
