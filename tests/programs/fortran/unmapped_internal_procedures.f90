! ACCORD_UNMAPPED=map: an internal procedure's region gets the address of its host's variables, among which are descriptors that
! the region uses. The copy of those holds the device's addresses, and the program's own stay.
! RUN env=ACCORD_UNMAPPED=map
program main
  use check
  implicit none
  integer :: nx, i
  real(8), allocatable :: state(:), other(:)
  real(8), pointer :: view(:)
  real(8) :: total
  nx = 8
  allocate (state(nx), other(nx))
  allocate (view(2:nx + 1))
  state = 1
  other = 2
  view = 3
  do i = 1, 3
    !$acc data copy(state)
    call sums(total)
    !$acc end data
    call equal('sum', total, 8d0)
  end do
  !$acc data copy(state, other, view)
  call changes
  !$acc end data
  call equal('state', sum(state), 8d0 * (1 + 2 + 3))
  call equal('other', sum(other), 8d0 * 2)
  call queued
  call equal('state in a queue', sum(state), 8d0 * (6 + 1))
  call pass
contains
  subroutine sums(total)
    real(8), intent(out) :: total
    integer :: i
    total = 0
    !$acc parallel loop reduction(+:total)
    do i = 1, nx
      total = total + state(i)
    end do
  end subroutine

  subroutine changes
    integer :: i
    !$acc parallel loop present(state, other, view)
    do i = 1, nx
      state(i) = state(i) + other(i) + view(i + 1)
    end do
  end subroutine

  subroutine queued
    integer :: i
    !$acc enter data copyin(state)
    !$acc parallel loop async(1)
    do i = 1, nx
      state(i) = state(i) + 1
    end do
    !$acc exit data copyout(state) async(1)
    !$acc wait(1)
  end subroutine
end program
