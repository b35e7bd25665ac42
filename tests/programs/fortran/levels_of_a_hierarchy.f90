! Components of a chain of levels, each twice as coarse, in recursive procedures: enter data, regions by associate, updates and exit data.
module grid
  implicit none
  integer, parameter :: dp = kind(1d0)
  type :: level
    integer :: n = 0
    real(dp), allocatable :: u(:), f(:)
    type(level), pointer :: coarser => null()
  end type
contains
  recursive subroutine build(l, n)
    type(level), intent(inout) :: l
    integer, intent(in) :: n
    l%n = n
    allocate (l%u(0:n), l%f(0:n))
    l%u = 0
    l%f = 1
    !$acc enter data copyin(l%u, l%f)
    if (n > 4) then
      allocate (l%coarser)
      call build(l%coarser, n / 2)
    end if
  end subroutine
  recursive subroutine smooth(l)
    type(level), intent(inout) :: l
    integer :: i, k
    associate (u => l%u, f => l%f, n => l%n)
    do k = 1, 3
      !$acc parallel loop present(u, f)
      do i = 1, n - 1, 2
        u(i) = 0.5_dp * (u(i-1) + u(i+1) + f(i))
      end do
      !$acc parallel loop present(u, f)
      do i = 2, n - 1, 2
        u(i) = 0.5_dp * (u(i-1) + u(i+1) + f(i))
      end do
    end do
    end associate
    if (associated(l%coarser)) call smooth(l%coarser)
  end subroutine
  recursive function total(l) result(t)
    type(level), intent(inout) :: l
    real(dp) :: t
    !$acc update self(l%u)
    t = sum(l%u)
    if (associated(l%coarser)) t = t + total(l%coarser)
  end function
  recursive subroutine clear(l)
    type(level), intent(inout) :: l
    !$acc exit data delete(l%u, l%f)
    deallocate (l%u, l%f)
    if (associated(l%coarser)) then
      call clear(l%coarser)
      deallocate (l%coarser)
    end if
  end subroutine
end module
program main
  use check
  use grid
  implicit none
  type(level), target :: top
  real(dp) :: t, expected
  real(dp), allocatable :: u(:)
  integer :: n, k, i, r
  do r = 1, 3
    call build(top, 32)
    call smooth(top)
    t = total(top)
    call clear(top)
    expected = 0
    n = 32
    do
      allocate (u(0:n))
      u = 0
      do k = 1, 3
        do i = 1, n - 1, 2
          u(i) = 0.5_dp * (u(i-1) + u(i+1) + 1)
        end do
        do i = 2, n - 1, 2
          u(i) = 0.5_dp * (u(i-1) + u(i+1) + 1)
        end do
      end do
      expected = expected + sum(u)
      deallocate (u)
      if (n <= 4) exit
      n = n / 2
    end do
    call equal('total', t, expected)
  end do
  call pass()
end program
