! Pointers and allocatable arrays that stay on the device from one region to the next, also when they mean something else meanwhile.
module kept
  implicit none
contains
  subroutine bring(p, q)
    real(8), pointer, intent(inout) :: p(:)
    real(8), allocatable, intent(inout) :: q(:, :)
    !$acc enter data create(p) copyin(q)
  end subroutine
  subroutine fill(p, q)
    real(8), pointer, intent(inout) :: p(:)
    real(8), allocatable, intent(inout) :: q(:, :)
    integer :: i
    !$acc parallel loop present(p, q)
    do i = lbound(p, 1), ubound(p, 1)
      p(i) = i + q(1, ubound(q, 2))
    end do
  end subroutine
  subroutine take(p, q)
    real(8), pointer, intent(inout) :: p(:)
    real(8), allocatable, intent(inout) :: q(:, :)
    !$acc exit data copyout(p) delete(q)
  end subroutine
end module
program main
  use check
  use kept
  implicit none
  real(8), pointer :: p(:), w(:)
  real(8), allocatable :: q(:, :)
  real(8), target :: t(10), u(-4:5)
  integer :: i, k
  allocate (q(2, 3))
  q = 100
  t = 0
  u = 0
  p => t
  call bring(p, q)
  call fill(p, q)
  !$acc parallel loop present(p)
  do i = 1, 10
    p(i) = p(i) + 0.5d0
  end do
  ! The same pointer, now at a part of what is present, and at other bounds.
  p(0:) => t(3:5)
  !$acc parallel loop present(p)
  do i = 0, 2
    p(i) = p(i) + 1000*(i + 1)
  end do
  p => t
  call take(p, q)
  do i = 1, 10
    select case (i)
    case (3:5)
      call equal('t(3:5)', t(i), i + 100.5d0 + 1000*(i - 2))
    case default
      call equal('t(i)', t(i), i + 100.5d0)
    end select
  end do
  call equal('present', acc_is_present(t), want(.false., .true.))
  ! At another array, while the first one is still there.
  !$acc enter data create(t) copyin(u)
  w => t
  !$acc parallel loop present(w)
  do i = 1, 10
    w(i) = -i
  end do
  w(1:) => u
  !$acc parallel loop present(w)
  do i = 1, 10
    w(i) = w(i) + 3*i
  end do
  !$acc exit data copyout(t, u)
  call equal('t(7)', t(7), -7d0)
  call equal('u(5)', u(5), 30d0)
  ! Deallocated and allocated again, with other bounds.
  deallocate (q)
  allocate (q(-1:1, 0:4))
  q = 7
  !$acc enter data create(q)
  !$acc parallel loop collapse(2) default(present)
  do i = 0, 4
    do k = -1, 1
      q(k, i) = 10*i + k
    end do
  end do
  !$acc update self(q)
  call equal('q(-1, 4)', q(-1, 4), 39d0)
  !$acc exit data delete(q)
  call pass()
end program
