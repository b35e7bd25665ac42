! Allocatables with declare create: allocate makes them present, deallocate no longer (2.13.2). Built by accord fc.
module grid
  implicit none
  real(8), allocatable :: u(:), w(:, :)
  integer, allocatable :: k
  !$acc declare create(u, w, k)
contains
  real(8) function at(i)
    !$acc routine seq
    integer, intent(in) :: i
    at = u(i)*w(1, i) + k
  end function
end module
program main
  use openacc
  use grid
  implicit none
  real(8), allocatable :: own(:)
  !$acc declare create(own)
  real(8) :: s
  integer :: i, round, n, error
  do round = 1, 3
    n = 10*round
    allocate (u(n), w(2, &
      n), k, stat=error)
    if (.not. allocated(own)) allocate (own(n)) ! once each round
    if (.not. acc_is_present(u) .or. .not. acc_is_present(w) .or. .not. acc_is_present(own)) stop 1
    u = round
    w = 2
    k = 5
    own = 3
    !$acc update device(u, w, k, own)
    s = 0
    !$acc parallel loop reduction(+:s)
    do i = 1, n
      s = s + at(i) + own(i)
    end do
    if (s /= n*(2*round + 5 + 3)) stop 2
    !$acc parallel loop present(u)
    do i = 1, n
      u(i) = i
    end do
    !$acc update self(u)
    if (u(n) /= n) stop 3
    if (round > 5) deallocate (u)
    if (.not. acc_is_present(u)) stop 4
    if (round < 5) deallocate (u, w)
    deallocate (own)
    deallocate (k)
  end do
  call lines()
  print '(a)', 'PASS'
contains
  subroutine lines()
    real(8), allocatable :: more(:)
    allocate (u(3))
    allocate (more(5), source=1d0)
    ! What u had is gone, on the device too.
    call move_alloc(more, u)
    if (.not. acc_is_present(u)) stop 5
    !$acc update device(u)
    !$acc parallel loop present(u)
    do i = 1, size(u)
      u(i) = u(i) + i
    end do
    !$acc update self(u)
    if (any(u /= [2, 3, 4, 5, 6])) stop 6
    call move_alloc(from=u, to=more)
    if (acc_is_present(more)) stop 7
  end subroutine
end program
