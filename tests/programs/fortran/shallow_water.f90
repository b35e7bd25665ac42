! A two-dimensional code with its fields in a module, halos that are packed into buffers and sent to the neighbour, and a time step
! that depends on a reduction: two halves of a domain give what the whole gives.
module flow
  implicit none
  integer, parameter :: nx = 24, ny = 16
contains
  subroutine step(h, m, dt)
    real(8), contiguous, intent(inout) :: h(0:, 0:)
    integer, intent(in) :: m
    real(8), intent(in) :: dt
    real(8) :: new(0:m + 1, 0:ny + 1)
    integer :: i, j
    !$acc data present(h) create(new)
    !$acc parallel loop collapse(2)
    do j = 1, ny
      do i = 1, m
        new(i, j) = h(i, j) + dt*(h(i - 1, j) + h(i + 1, j) + h(i, j - 1) + h(i, j + 1) - 4*h(i, j))
      end do
    end do
    !$acc parallel loop collapse(2)
    do j = 1, ny
      do i = 1, m
        h(i, j) = new(i, j)
      end do
    end do
    !$acc end data
  end subroutine
  real(8) function highest(h, m) result(r)
    real(8), contiguous, intent(in) :: h(0:, 0:)
    integer, intent(in) :: m
    integer :: i, j
    r = 0
    !$acc parallel loop collapse(2) present(h) reduction(max:r)
    do j = 1, ny
      do i = 1, m
        r = max(r, h(i, j))
      end do
    end do
  end function
  subroutine pack_(h, column, buffer)
    real(8), contiguous, intent(in) :: h(0:, 0:)
    integer, intent(in) :: column
    real(8), intent(out) :: buffer(ny)
    integer :: j
    !$acc parallel loop present(h) copyout(buffer)
    do j = 1, ny
      buffer(j) = h(column, j)
    end do
  end subroutine
  subroutine unpack_(h, column, buffer)
    real(8), contiguous, intent(inout) :: h(0:, 0:)
    integer, intent(in) :: column
    real(8), intent(in) :: buffer(ny)
    integer :: j
    !$acc parallel loop present(h) copyin(buffer)
    do j = 1, ny
      h(column, j) = buffer(j)
    end do
  end subroutine
end module
program main
  use check
  use flow
  implicit none
  real(8), allocatable :: all_(:, :), left(:, :), right(:, :)
  real(8) :: to_right(ny), to_left(ny), dt, top
  integer :: i, j, k
  allocate (all_(0:nx + 1, 0:ny + 1), left(0:nx/2 + 1, 0:ny + 1), right(0:nx/2 + 1, 0:ny + 1))
  all_ = 1
  do j = 4, 9
    do i = 6, 15
      all_(i, j) = 1 + 0.125d0*mod(i*j, 5)
    end do
  end do
  left = all_(0:nx/2 + 1, :)
  right = all_(nx/2:nx + 1, :)
  !$acc enter data copyin(all_, left, right)
  do k = 1, 8
    top = highest(all_, nx)
    call equal('the same height', max(highest(left, nx/2), highest(right, nx/2)), top)
    dt = 0.2d0/top
    call pack_(left, nx/2, to_right)
    call pack_(right, 1, to_left)
    call unpack_(right, 0, to_right)
    call unpack_(left, nx/2 + 1, to_left)
    call step(all_, nx, dt)
    call step(left, nx/2, dt)
    call step(right, nx/2, dt)
  end do
  !$acc exit data copyout(all_, left, right)
  call equal('left', count(left(1:nx/2, 1:ny) /= all_(1:nx/2, 1:ny)), 0)
  call equal('right', count(right(1:nx/2, 1:ny) /= all_(nx/2 + 1:nx, 1:ny)), 0)
  call equal('it has moved', all_(3, 3) > 1, .true.)
  call pass()
end program
